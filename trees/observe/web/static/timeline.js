// When what ran: a row for each subtask, in it a bar for each attempt and each wait.
//
// A bar is told by its pattern, its number and its words, so that colour only helps. All bars of a subtask are in the
// table below it when it is selected.

import { badge, h, keyed, mark, place, put, say, table } from "./dom.js";
import { count, duration, plural, time } from "./format.js";

const MOST = 300;
const TICK_WIDTH = 80;
const KINDS = {
  queued: "queued", running: "running", retry_wait: "waits for a retry", person: "waits for a person",
  undo: "undone", review: "in review",
};
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];

export class Timeline {
  #selected = null;
  #task = null;
  #now = 0;

  constructor(app) {
    this.app = app;
    this.filter = h("input", {
      type: "search", placeholder: "Filter subtasks   /", "aria-label": "Filter subtasks", hidden: true,
      oninput: () => this.draw(this.#task, this.#now),
    });
    this.axis = h("div", { class: "axis", "aria-hidden": "true" });
    this.rows = h("div", { class: "lanes", role: "list", "aria-label": "Subtasks in time" });
    this.cut = h("p", { class: "none", hidden: true });
    this.details = h("div", { class: "picked", role: "region", "aria-label": "Selected subtask", hidden: true });
    this.legend = h("ul", { class: "legend", "aria-label": "Kinds of bars" });
    this.element = h("div", { class: "timeline" }, this.filter,
      h("div", { class: "chart" }, h("div", { class: "lane head" }, h("span", { class: "label" }), this.axis), this.rows),
      this.cut, this.legend, this.details);
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest(".lane");
      if (row) this.select(row.dataset.id);
    });
  }

  /** Draw a task as it is at `now`. */
  draw(task, now) {
    this.#task = task;
    this.#now = now;
    const lanes = this.#lanes(task);
    const from = Math.min(task.created_at, ...task.bars.slice(0, MOST).map((bar) => bar.from));
    const to = Math.max(now, from + 0.001);
    this.filter.hidden = task.nodes.length <= 20;
    const text = this.filter.value.trim().toLowerCase();
    const wanted = lanes.filter(({ node }) => !text || `${node.id} ${node.worker} ${node.status}`.toLowerCase().includes(text));
    this.#ticks(from, to);
    keyed(this.rows, wanted.slice(0, MOST), ({ node }) => node.id, ({ node }) => this.#make(node),
      (row, lane) => this.#update(row, lane, from, to));
    mark(this.cut, "hidden", wanted.length > MOST ? null : true);
    say(this.cut, `${count(MOST)} of ${plural(wanted.length, "subtask")} drawn: what runs or failed first. Filter for others.`);
    this.#legend(task.bars);
    if (this.#selected) this.#pick();
  }

  /** Subtasks in the order in which they began; where there are too many, what runs or failed comes first. */
  #lanes(task) {
    const bars = new Map(task.nodes.map((node) => [node.id, []]));
    for (const bar of task.bars) bars.get(bar.subtask)?.push(bar) ?? bars.set(bar.subtask, [bar]);
    const known = new Map(task.nodes.map((node) => [node.id, node]));
    const lanes = [...bars].map(([id, own]) => ({
      node: known.get(id) ?? { id, worker: own[0].worker, status: "", depends: [] },
      bars: own,
      from: own.length ? Math.min(...own.map((bar) => bar.from)) : Infinity,
    }));
    const weight = lanes.length > MOST ? (lane) => (["running", "failed"].includes(lane.node.status) ? 0 : 1) : () => 0;
    return lanes.sort((a, b) => weight(a) - weight(b) || (a.from === b.from ? 0 : a.from - b.from));
  }

  #ticks(from, to) {
    const span = to - from;
    const most = Math.min(10, Math.max(2, (this.axis.clientWidth || 800) / TICK_WIDTH));
    const step = STEPS.find((each) => span / each <= most) ?? Math.ceil(span / most / 86400) * 86400;
    const ticks = [];
    for (let at = 0; at <= span * 0.96; at += step) ticks.push(at);
    const told = ticks.map((at) => `${at}/${span.toFixed(3)}`).join();
    if (this.axis.told === told) return;
    this.axis.told = told;
    put(this.axis, ticks.map((at) => place(h("span", {}, at ? duration(at).replace(".0 ", " ") : "0"),
      { left: `${(100 * at) / span}%` })));
    place(this.rows, { "--tick": `${(100 * step) / span}%` });
  }

  #make(node) {
    const row = h("div", { class: "lane", role: "listitem" });
    row.dataset.id = node.id;
    row.name = h("button", { type: "button", class: "label" }, h("span", { class: "who" }, node.id), h("span", { class: "by" }));
    row.track = h("div", { class: "track" });
    row.append(row.name, row.track);
    return row;
  }

  #update(row, { node, bars }, from, to) {
    const span = to - from;
    say(row.name.lastChild, node.worker && node.worker !== node.id ? node.worker : "");
    mark(row.name, "title", `${node.id}: ${node.status}`);
    mark(row, "data-selected", node.id === this.#selected || null);
    mark(row, "data-status", node.status);
    keyed(row.track, bars, (bar) => `${bar.kind} ${bar.attempt} ${bar.from}`, () => h("div", { role: "img" }), (element, bar) => {
      const until = bar.to ?? to;
      mark(element, "class", "bar");
      mark(element, "data-kind", bar.kind);
      mark(element, "data-status", bar.status ?? "running");
      mark(element, "data-open", bar.to === null || null);
      mark(element, "title", sentence(bar, this.#now));
      mark(element, "aria-label", sentence(bar, this.#now));
      say(element, label(bar));
      place(element, { left: `${(100 * (bar.from - from)) / span}%`, width: `${(100 * Math.max(0, until - bar.from)) / span}%` });
    });
  }

  #legend(bars) {
    const kinds = Object.keys(KINDS).filter((kind) => bars.some((bar) => bar.kind === kind));
    const failed = bars.some((bar) => bar.kind === "running" && bar.status === "failed");
    const told = `${kinds.join()} ${failed}`;
    if (this.legend.told === told) return;
    this.legend.told = told;
    const entry = (kind, status, text) => h("li", {}, h("span", { class: "bar", "data-kind": kind, "data-status": status }), text);
    put(this.legend, kinds.map((kind) => entry(kind, "succeeded", KINDS[kind])), failed && entry("running", "failed", "failed"));
  }

  /** Show all bars of a subtask as a table. */
  select(id) {
    this.#selected = this.#selected === id ? null : id;
    if (this.#task) this.draw(this.#task, this.#now);
    if (!this.#selected) mark(this.details, "hidden", true);
  }

  #pick() {
    const node = this.#task.nodes.find(({ id }) => id === this.#selected);
    const bars = this.#task.bars.filter(({ subtask }) => subtask === this.#selected);
    mark(this.details, "hidden", null);
    put(this.details,
      h("h3", {}, this.#selected, " ", node && badge(node.status)),
      node?.depends.length ? h("p", { class: "fine" }, `after ${node.depends.join(", ")}`) : "",
      table("Attempts and waits", ["", "Attempt", "Worker", "From", "Took", "Status", "Error"], bars.map((bar) => [
        KINDS[bar.kind] ?? bar.kind, bar.attempt || "", bar.worker ?? "", time(bar.from),
        bar.to === null ? `${duration(this.#now - bar.from)} so far` : duration(bar.to - bar.from),
        bar.status && bar.status !== bar.kind ? badge(bar.status) : "", bar.error ?? "",
      ]), "It has not begun."));
  }
}

function label(bar) {
  if (bar.kind === "running") return bar.status === "failed" ? `✕ ${bar.attempt || ""} ${bar.error ?? ""}` : bar.attempt || "";
  return { person: "person", review: "review", undo: "undo", retry_wait: "retry" }[bar.kind] ?? "";
}

function sentence(bar, now) {
  const took = duration((bar.to ?? now) - bar.from);
  const how = [KINDS[bar.kind] ?? bar.kind, bar.kind === "running" && bar.status !== "running" && bar.status, bar.error].filter(Boolean).join(", ");
  return `${bar.subtask}${bar.attempt ? `, attempt ${bar.attempt}` : ""}${bar.worker ? ` by ${bar.worker}` : ""}: ${how}, ${took}${bar.to === null ? " so far" : ""}`;
}
