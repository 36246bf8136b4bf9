// One task: its timeline, its graph, usage, reviews, report and log.

import { get } from "./api.js";
import { badge, facts, h, mark, put, rebadge, say, table } from "./dom.js";
import { cost, count, duration, plural, time } from "./format.js";
import { drawGraph } from "./graph.js";
import { drawCards } from "./questions.js";
import { Timeline } from "./timeline.js";

const LOG = 400;

export class TaskView {
  #told = new Map();

  constructor(app, id) {
    this.app = app;
    this.id = id;
    this.state = badge("unknown");
    this.goal = h("p", { class: "goal" });
    this.why = h("pre", { class: "why", hidden: true, "aria-label": "Error" });
    this.asked = h("div", { class: "questions" });
    this.inputs = h("div", {});
    this.head = h("div", {});
    this.stop = h("button", { type: "button", class: "danger", hidden: true, onclick: () => this.#cancel() }, "Cancel the task");
    this.timeline = new Timeline(app);
    this.graph = h("div", { class: "scroll graph" });
    this.usage = h("div", {});
    this.reviews = h("div", {});
    this.report = h("div", {});
    this.log = h("div", {});
    this.error = h("p", { class: "none", hidden: true });
    this.element = h("article", { class: "task", "aria-label": `Task ${id}` },
      h("header", {},
        h("a", { href: "#/tasks", class: "back" }, "Tasks"),
        h("h1", {}, id), this.state, this.stop),
      this.error, this.why, this.goal, this.asked, this.head, this.inputs,
      this.report,
      part("Timeline", this.timeline.element),
      part("Graph", this.graph),
      this.reviews, this.usage, this.log);
  }

  #cancel() {
    return this.app.act(`/api/tasks/${encodeURIComponent(this.id)}/cancel`, {}, `${this.id} is being cancelled.`,
      `Cancel ${this.id}? What runs is ended, and what is done may be undone.`);
  }

  async look() {
    const task = await get(`/api/tasks/${encodeURIComponent(this.id)}`);
    const now = task.finished_at ?? this.app.until();
    const { questions } = task.finished_at === null ? await get("/api/questions") : { questions: [] };
    drawCards(this.app, this.asked, questions.filter(({ task: of }) => of === this.id || of.startsWith(`${this.id}@`)));
    mark(this.why, "hidden", !task.error);
    say(this.why, task.error);
    mark(this.error, "hidden", true);
    rebadge(this.state, task.status);
    mark(this.stop, "hidden", task.finished_at !== null || null);
    say(this.goal, task.goal);
    const many = (kind) => task.bars.filter((bar) => bar.kind === kind).length;
    put(this.head, facts([
      ["Where", h("a", { href: this.app.href("tree", task.path) }, task.path)],
      ["Began", time(task.created_at)],
      [task.finished_at === null ? "Runs for" : "Took", duration(now - task.created_at)],
      ["Subtasks", count(task.nodes.length)],
      ["Attempts", count(many("running"))],
      ["Retries", count(many("retry_wait")) === "0" ? null : count(many("retry_wait"))],
    ]));
    this.timeline.draw(task, now);
    this.#once(this.graph, task.nodes, () => drawGraph(this.graph, task.nodes, (id) => this.timeline.select(id)));
    this.#once(this.inputs, [task.inputs, task.nodes], () => put(this.inputs, inputs(task)));
    this.#once(this.usage, task.usage, () => put(this.usage, usage(task.usage ?? {})));
    this.#once(this.reviews, task.reviews, () => put(this.reviews, reviews(task.reviews ?? [])));
    this.#once(this.report, task.report, () => put(this.report, task.report ? part("Report", h("pre", { class: "report" }, task.report)) : ""));
    this.#once(this.log, task.log, () => put(this.log, log(task.log ?? [])));
  }

  /** Draw a part where what it shows has changed. */
  #once(element, value, draw) {
    const told = JSON.stringify(value);
    if (this.#told.get(element) === told) return;
    this.#told.set(element, told);
    draw();
  }

  key(event) {
    if (event.key !== "Escape") return false;
    this.app.go("tasks");
    return true;
  }

  failed(error) {
    mark(this.error, "hidden", null);
    say(this.error, error.message);
  }
}

function part(title, ...children) {
  return h("section", { class: "part" }, h("h2", {}, title), ...children);
}

/** What the task and each of its subtasks were given. */
function inputs({ inputs: given = {}, nodes, goal }) {
  const rows = [["", given], ...nodes.map(({ id, instruction, inputs: own }) => [
    id, { ...(instruction && instruction !== goal ? { instruction } : {}), ...own },
  ])].flatMap(([subtask, values]) => Object.entries(values).map(([name, text]) => [subtask || "the task", name, h("pre", {}, text)]));
  return rows.length ? h("details", { class: "part", open: Object.keys(given).length > 0 || null },
    h("summary", {}, h("h2", {}, "Inputs")), table("Inputs", ["Of", "Name", "Value"], rows, "")) : "";
}

function usage(by) {
  const rows = Object.entries(by).map(([worker, { tokens, cost: amount }]) => [worker, count(tokens), cost(amount) || "–"]);
  return rows.length ? part("Usage", table("Usage", ["Worker", "Tokens", "Cost"], rows, "")) : "";
}

function reviews(rounds) {
  if (!rounds.length) return "";
  return part("Reviews", table("Reviews", ["Subtask", "Round", "Verdict", "Feedback"],
    rounds.map(({ subtask, round, accepted, feedback }) => [
      subtask, round, badge(accepted ? "accepted" : "sent_back"), feedback ?? "",
    ]), ""));
}

function log(entries) {
  const shown = entries.slice(-LOG);
  const cut = entries.length > LOG ? `The last ${LOG} of ${plural(entries.length, "record")}.` : "";
  return h("details", { class: "part", open: entries.length <= 40 || null },
    h("summary", {}, h("h2", {}, "Log"), ` ${plural(entries.length, "record")}`),
    cut && h("p", { class: "fine" }, cut),
    table("Log", ["At", "Record", "Subtask", ""],
      shown.map(({ at, kind, subtask, text }) => [h("time", {}, time(at)), kind, subtask ?? "", text]), "Nothing yet."));
}
