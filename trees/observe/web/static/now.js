// What happens now: throughput, what is busy, what is slow, what crashed lately, what was dropped, alerts.

import { get } from "./api.js";
import { badge, h, mark, put, table } from "./dom.js";
import { ago, count, duration, time } from "./format.js";
import { columns, spark } from "./spark.js";

const FEED = 40;
const UNTOLD = new Set(["version", "id", "at", "name", "path", "error_type", "frames"]);

export class NowView {
  constructor(app) {
    this.app = app;
    this.events = spark("", 180, 28);
    this.subtasks = spark("", 180, 28);
    this.figures = { events: figure("Events", this.events), subtasks: figure("Subtasks", this.subtasks) };
    for (const name of ["Busy threads", "Ready subtasks", "Tasks", "Dead letters"]) this.figures[name] = figure(name);
    this.parts = {};
    const part = (name) => h("section", { class: "part" }, h("h2", {}, name), (this.parts[name] = h("div", {})));
    this.element = h("section", { class: "pane padded now", "aria-label": "Now" },
      h("div", { class: "figures" }, Object.values(this.figures).map(({ element }) => element)),
      h("div", { class: "columns" },
        h("div", {}, part("Alerts firing"), part("Problems"), part("Recent crashes")),
        h("div", {}, part("Slowest attempts"), part("Tasks by status"), part("Dead letters"))),
      part("Events"));
  }

  async look() {
    const snapshot = await get("/api/snapshot", { limit: 1 });
    this.app.head(snapshot);
    this.#draw(snapshot.now, snapshot.health?.problems ?? []);
  }

  event() {
    this.#flow();
  }

  #flow() {
    const now = this.app.now();
    for (const name of ["events", "subtasks"]) {
      const counts = this.app.flows.buckets(name, now, 30);
      const last = counts.slice(-15).reduce((a, b) => a + b, 0);
      columns(this[name], counts, `${name} in the last minute`);
      tell(this.figures[name], `${(last / 30).toFixed(last >= 300 ? 0 : 1)}/s`);
    }
  }

  #draw(now, problems) {
    const at = this.app.now();
    const tasks = Object.entries(now.tasks ?? {});
    const letters = Object.entries(now.dead_letters ?? {});
    this.#flow();
    tell(this.figures["Busy threads"], count(now.busy_threads));
    tell(this.figures["Ready subtasks"], count(now.ready_queue));
    tell(this.figures.Tasks, count(tasks.reduce((sum, [, n]) => sum + n, 0)));
    tell(this.figures["Dead letters"], count(letters.reduce((sum, [, n]) => sum + n, 0)));
    this.#put("Alerts firing", table("Alerts firing", ["Alert", "Since"],
      (now.alerts ?? []).map(({ name, since }) => [h("strong", { class: "bad" }, `▲ ${name}`), ago(since, at)]), "None."));
    this.#put("Problems", table("Problems", ["Where", "What"],
      problems.map(({ path, what }) => [this.#child(path), what]), "None."));
    this.#put("Recent crashes", table("Recent crashes", ["Child", "Error", "Times", "Last"],
      (now.crashes ?? []).map(({ path, type, count: times, last_at: last }) => [
        this.#child(path), h("code", {}, type), count(times), h("time", { title: time(last) }, ago(last, at)),
      ]), "None."));
    this.#put("Slowest attempts", table("Slowest attempts", ["Worker", "Task", "Subtask", "Runs for"],
      (now.slowest ?? []).map(({ path, task, subtask, since_s: since }) => [
        this.#child(path), task ? h("a", { href: this.app.href("tasks", task) }, task) : "", subtask ?? "", duration(since),
      ]), "Nothing runs."));
    this.#put("Tasks by status", table("Tasks by status", ["Status", "Tasks"],
      tasks.map(([status, n]) => [badge(status), count(n)]), "No tasks."));
    this.#put("Dead letters", table("Dead letters by reason", ["Reason", "Messages"],
      letters.map(([reason, n]) => [reason.replaceAll("_", " "), count(n)]), "None."));
    this.#put("Events", table("Events", ["At", "Event", "Where", ""],
      this.app.feed.slice(-FEED).reverse().map((event) => [
        h("time", {}, time(event.at)), event.name.replaceAll("_", " "),
        event.path ? this.#child(event.path) : "", rest(event),
      ]), "None since this page was opened."));
  }

  #put(name, drawn) {
    const held = this.parts[name];
    if (held.matches(":hover") && getSelection()?.toString()) return; // somebody copies from it
    put(held, drawn);
  }

  #child(path) {
    return h("a", { href: this.app.href("tree", path) }, path);
  }

  failed(error) {
    put(this.parts.Problems, h("p", { class: "none" }, error.message));
  }
}

function figure(name, drawn) {
  const value = h("b", {}, "–");
  return { value, element: h("div", { class: "figure" }, h("span", {}, name), value, drawn) };
}

function tell({ value }, text) {
  mark(value, "title", null);
  if (value.textContent !== text) value.textContent = text;
}

/** What else an event says, in one line. */
function rest(event) {
  const told = Object.entries(event).filter(([name, value]) => !UNTOLD.has(name) && ["string", "number"].includes(typeof value)
    && value !== "").map(([name, value]) => `${name.replaceAll("_", " ")} ${figured(name, value)}`);
  return h("span", { class: "fine one" }, told.join(" · ").slice(0, 200));
}

/** A value as people read it: a moment as a time of day, a measurement with three digits. */
function figured(name, value) {
  if (typeof value !== "number") return value;
  if (name === "due" || name.endsWith("_at") || name === "since") return time(value);
  return Number.isInteger(value) ? value : Number(value.toPrecision(3));
}
