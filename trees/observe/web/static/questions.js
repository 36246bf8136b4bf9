// What waits for a person: cards, here and on the page of a task. A form stays as it is while it is typed into.

import { get } from "./api.js";
import { facts, h, keyed, mark, say } from "./dom.js";
import { ago, duration, plural, time } from "./format.js";

const ANSWERS = {
  approve: ["Approve", "is approved"],
  edit: ["Edit", "goes on as edited"],
  respond: ["Respond", "has its answer"],
  reject: ["Reject", "is rejected"],
};

/** What each answer does, in one sentence. */
const DOES = {
  subtask: {
    approve: "The subtask runs again, and its worker hears that you approve.",
    edit: "Your text becomes the result of the subtask.",
    respond: "The subtask runs again with your text as feedback.",
    reject: "The subtask has failed. Your text is the reason.",
  },
  review: {
    approve: "The results pass.",
    edit: "Your text, as JSON, is the verdict.",
    respond: "The results are sent back with your text.",
    reject: "The task fails. Your text is the reason.",
  },
  combine: {
    approve: "The output is made once more.",
    edit: "Your text becomes the output.",
    respond: "The output is made once more with your text as feedback.",
    reject: "The task fails. Your text is the reason.",
  },
  undo: {
    approve: "The undo is tried again.",
    edit: "The undo counts as done.",
    respond: "The undo is tried again with your text as feedback.",
    reject: "It is not undone, and the report says so.",
  },
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
    drawCards(this.app, this.list, questions);
  }

  failed(error) {
    say(this.told, error.message);
  }
}

/** Draw a card for each question. */
export function drawCards(app, list, questions) {
  keyed(list, questions, ({ id }) => id, (question) => new Card(app, question).element, (card, question) => {
    const now = app.now();
    const left = question.due ? `, ${duration(question.due - now)} left` : "";
    say(card.since, ago(question.asked_at, now) + left);
  });
}

class Card {
  constructor(app, question) {
    this.app = app;
    this.element = this.#make(question);
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
      h("p", { class: "question" }, text ?? "Its text is shown to whoever has opened the page with its token."),
      question.error && question.error !== text && h("p", { class: "error" }, question.error));
    const told = [["Goal", question.goal], question.instruction !== question.goal && ["Instruction", question.instruction],
      ...Object.entries(question.inputs ?? {}).map(([name, each]) => [`Input ${name}`, each])].filter(Boolean);
    card.append(facts(told), folded("Results of", question.results ?? {}));
    card.since = h("time", { title: time(at) });
    card.querySelector("header").append(card.since);
    const send = (answer) => this.#answer(card, question, answer, input);
    card.append(answers.some((answer) => answer !== "approve") ? input : "", h("div", { class: "answers" },
      answers.map((answer) => h("div", {},
        h("button", { type: "button", onclick: () => send(answer) }, ANSWERS[answer]?.[0] ?? answer),
        h("p", { class: "fine" }, (DOES[kind] ?? DOES.subtask)[answer])))));
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
}

/** Values by name, each behind its name. */
export function folded(what, values) {
  return h("div", {}, Object.entries(values).map(([name, text]) => h("details", { class: "value" },
    h("summary", {}, `${what} ${name}`), h("pre", {}, text))));
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
