// What waits for a person. A form stays as it is while it is typed into.

import { get } from "./api.js";
import { h, keyed, mark, say } from "./dom.js";
import { ago, duration, plural, time } from "./format.js";

const ANSWERS = {
  approve: ["Approve", "is approved", "first"],
  edit: ["Edit", "goes on as edited", null],
  respond: ["Respond", "has its answer", null],
  reject: ["Reject", "is rejected", "danger"],
};

export class QuestionsView {
  constructor(app) {
    this.app = app;
    this.told = h("p", { class: "summary", role: "status" });
    this.list = h("div", { class: "questions" });
    this.element = h("section", { class: "pane padded", "aria-label": "Questions" },
      h("div", { class: "bar" }, h("h1", {}, "Questions"), this.told), this.list);
  }

  async look() {
    const { questions } = await get("/api/questions");
    say(this.told, questions.length ? `${plural(questions.length, "task")} wait for a person`.replace("1 task wait", "1 task waits")
      : "Nothing waits for a person.");
    keyed(this.list, questions, ({ id }) => id, (question) => this.#make(question), (card, question) => {
      const now = this.app.now();
      const left = question.due ? `, ${duration(question.due - now)} left` : "";
      say(card.since, ago(question.asked_at, now) + left);
    });
  }

  #make(question) {
    const { id, task, path, subtask, kind, text, asked_at: at, answers } = question;
    const input = h("textarea", { rows: 2, "aria-label": `Text for ${id}`, placeholder: hint(answers) });
    const card = h("article", { class: "card", "aria-label": `Question ${id}` },
      h("header", {},
        h("span", { class: "chip" }, kind.replaceAll("_", " ")),
        h("a", { href: this.app.href("tasks", task) }, task),
        subtask && h("span", { class: "fine" }, subtask),
        h("span", { class: "fine" }, path)),
      h("p", { class: "question" }, text ?? "Its text is not shown here: content=True of the page, or regrow observe, shows it."),
      question.error && question.error !== text && h("p", { class: "error" }, question.error));
    card.since = h("time", { title: time(at) });
    card.querySelector("header").append(card.since);
    const send = (answer) => this.#answer(card, question, answer, input);
    card.append(answers.some((answer) => answer !== "approve") ? input : "", h("div", { class: "acts" },
      answers.map((answer) => h("button", { type: "button", class: ANSWERS[answer]?.[2], onclick: () => send(answer) },
        ANSWERS[answer]?.[0] ?? answer))));
    return card;
  }

  async #answer(card, question, answer, input) {
    const text = input.value.trim();
    if (!text && (answer === "respond" || answer === "edit")) {
      mark(input, "aria-invalid", true);
      input.placeholder = answer === "edit" ? "Write the value that it goes on with, as JSON or as text." : "Write the answer.";
      input.focus();
      return;
    }
    const body = { answer };
    if (answer === "edit") body.value = value(text);
    else if (text) body.text = text;
    const buttons = card.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    const done = await this.app.act(`/api/questions/${encodeURIComponent(question.id)}`, body,
      `${question.task} ${ANSWERS[answer]?.[1] ?? "has its answer"}.`);
    if (!done) for (const button of buttons) button.disabled = false;
  }

  failed(error) {
    say(this.told, error.message);
  }
}

function hint(answers) {
  const uses = [
    answers.includes("edit") && "a value (Edit)", answers.includes("respond") && "an answer (Respond)",
    answers.includes("reject") && "a reason (Reject)",
  ].filter(Boolean);
  return uses.length ? `${uses.join(", ")}` : "";
}

/** What was typed, as JSON where it is JSON. */
function value(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
