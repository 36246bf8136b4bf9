// One child beside the tree: what it is set to, its last ends with their frames, its restarts, its attempts, its stack.

import { ApiError, get } from "./api.js";
import { badge, facts, h, put, rebadge, say, table } from "./dom.js";
import { ago, count, duration, plural, time } from "./format.js";
import { columns, spark } from "./spark.js";

const ACTS = {
  restart: ["Restart", "is being restarted", null],
  terminate: ["Terminate", "is being ended", "Its mailbox stays; it is down until somebody restarts it."],
  unpark: ["Unpark", "is being started", null],
};

export class ChildPanel {
  #told = "";

  constructor(app, path) {
    this.app = app;
    this.path = path;
    this.state = badge("unknown");
    this.now = h("div", {});
    this.details = h("div", {});
    this.frames = h("pre", { class: "frames", tabindex: "0", hidden: true, "aria-label": "Stack" });
    this.unpark = this.#button("unpark");
    this.element = h("div", {},
      h("header", {},
        h("h2", {}, h("span", { class: "above" }, above(path)), own(path)),
        h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => app.go("tree") }, "✕")),
      h("p", {}, this.state),
      this.now,
      h("div", { class: "acts" }, this.#button("restart"), this.#button("terminate"), this.unpark,
        h("button", { type: "button", onclick: () => this.#stack() }, "Show stack")),
      this.frames,
      this.details);
  }

  #button(act) {
    const [label, done, question] = ACTS[act];
    return h("button", {
      type: "button",
      class: act === "terminate" ? "danger" : null,
      onclick: ({ currentTarget }) => this.#act(currentTarget, act, `${this.path} ${done}.`,
        question && `${label} ${this.path}? ${question}`),
    }, label);
  }

  /** Have it done; until it is, which takes as long as the worker does to end, the button is not pressed again. */
  async #act(button, act, done, question) {
    button.disabled = true;
    try {
      await this.app.act("/api/children", { path: this.path, act }, done, question);
    } finally {
      button.disabled = false;
    }
  }

  async #stack() {
    await this.app.guard(async () => {
      const { frames } = await get("/api/stack", { path: this.path });
      this.frames.hidden = false;
      say(this.frames, frames.length ? frames.join("\n") : "It runs nothing just now.");
      this.frames.scrollTop = this.frames.scrollHeight; // its own code stands at the end
    });
  }

  /** Draw it anew; `row` is its row of the tree, where it is drawn. */
  async look(row) {
    if (row) this.#live(row);
    let child;
    try {
      child = await get("/api/child", { path: this.path });
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 409)) throw error;
      put(this.details, h("p", { class: "none" }, error.message));
      return;
    }
    if (child.row) this.#live(child.row);
    const told = JSON.stringify([child.settings, child.exits, child.restarts, child.attempts]);
    if (told === this.#told) return;
    this.#told = told;
    put(this.details, this.#exits(child.exits ?? []), this.#restarts(child.restarts ?? []),
      this.#attempts(child.attempts ?? []), settings(child.settings ?? {}));
  }

  #live(row) {
    rebadge(this.state, row.state);
    this.unpark.hidden = row.state !== "parked";
    put(this.now, facts([
      ["Kind", row.kind],
      ["Strategy", row.strategy?.replaceAll("_", " ")],
      ["Restart", row.restart],
      ["Incarnation", row.incarnation || null],
      ["Restarts", row.restarts],
      ["Limit", limit(row)],
      ["Mailbox", count(row.mailbox)],
      ["Current message", row.current_s === null ? null : `for ${duration(row.current_s)}`],
      ["Breaker", row.breaker?.replaceAll("_", " ")],
      ["Size", row.size ? `${count(row.size)}${row.busy === null ? "" : `, ${row.busy} busy`}` : null],
      ["Process", row.pid],
      ["Node", row.node],
    ]));
  }

  #exits(exits) {
    const now = this.app.now();
    const open = Math.max(0, exits.findIndex((exit) => exit.text || exit.frames?.length)); // one that says why
    const shown = exits.map((exit, place) => h("details", { class: "exit", open: place === open },
      h("summary", {},
        h("span", { class: "reason" }, exit.reason), " ",
        exit.type && exit.type !== exit.reason && h("code", {}, exit.type), " ",
        h("time", { title: time(exit.at) }, ago(exit.at, now))),
      exit.text && h("p", { class: "error" }, exit.text),
      h("p", { class: "fine" }, `at ${time(exit.at)}`, exit.lasted_s === null ? "" : `, after ${duration(exit.lasted_s)}`),
      exit.frames?.length ? h("pre", { class: "frames", tabindex: "0" }, exit.frames.join("\n")) : ""));
    return h("section", {}, h("h3", {}, "Last exits"), shown.length ? shown : h("p", { class: "none" }, "It never ended."));
  }

  #restarts(restarts) {
    if (!restarts.length) return "";
    const now = this.app.now();
    const first = Math.min(...restarts.map(({ at }) => at));
    const counts = new Array(40).fill(0);
    for (const { at } of restarts) counts[Math.min(39, Math.floor(((at - first) / Math.max(1, now - first)) * 40))] += 1;
    const drawn = spark("", 240, 24);
    const label = `${plural(restarts.length, "restart")} since ${time(first)}`;
    columns(drawn, counts, label);
    return h("section", {}, h("h3", {}, "Restarts"), h("p", { class: "fine" }, label), drawn,
      table("Restarts", ["At", "In a row", "Backoff"],
        restarts.slice(0, 8).map(({ at, attempt, delay_s }) => [time(at), attempt, delay_s ? duration(delay_s) : "none"]), ""));
  }

  #attempts(attempts) {
    if (!attempts.length) return "";
    return h("section", {}, h("h3", {}, "Attempts"), table("Attempts", ["Task", "Subtask", "Attempt", "Status", "Took"],
      attempts.map((each) => [
        each.task ? h("a", { href: this.app.href("tasks", each.task) }, each.task) : "",
        each.subtask, each.attempt, each.status ? badge(each.status) : "",
        duration(each.ran_s ?? (each.to && each.from ? each.to - each.from : null)),
      ]), ""));
  }
}

/** How much of its restart limit is used up: of a supervisor by its children, else by itself. */
function limit({ state, max_restarts: most, restarts_used: used, within_s: period }) {
  if (state === "parked" && used !== null) return `parked after ${used} restarts in ${duration(period)}, ${most} are allowed`;
  return most === null || most === undefined ? null : `${used ?? 0} of ${most} restarts in ${duration(period)}`;
}

function settings(given) {
  return h("section", {}, h("h3", {}, "Settings"), facts(Object.entries(given)));
}

function above(path) {
  return path.slice(0, path.lastIndexOf("/") + 1);
}

function own(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}
