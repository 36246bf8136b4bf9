// The list of tasks, with filter and search.

import { get } from "./api.js";
import { badge, h, keyed, mark, rebadge, say } from "./dom.js";
import { ago, brief, cost, count, duration, plural, time } from "./format.js";

const MOST = 200;
const STATUSES = ["", "pending", "planning", "running", "waiting", "succeeded", "failed", "cancelled"];
const HEADS = [
  ["Task", "id"], ["Status", "state"], ["Goal", "goal"], ["Subtasks", "progress"], ["Began", "began"],
  ["Took", "took"], ["Tokens", "number"], ["Cost", "number"],
];
const DONE = new Set(["succeeded", "skipped"]);

export class TasksView {
  constructor(app) {
    this.app = app;
    this.search = h("input", {
      type: "search", placeholder: "Search ids and goals   /", "aria-label": "Search ids and goals",
      oninput: () => this.app.looker.soon(),
    });
    this.status = h("select", { "aria-label": "Status", onchange: () => this.app.looker.now() },
      STATUSES.map((status) => h("option", { value: status }, status || "every status")));
    this.told = h("p", { class: "summary", role: "status" });
    this.body = h("tbody", {});
    this.element = h("section", { class: "pane", "aria-label": "Tasks" },
      h("div", { class: "bar" }, this.search, this.status, this.told),
      h("div", { class: "scroll grow" }, h("table", { class: "tasks", "aria-label": "Tasks" },
        h("thead", {}, h("tr", {}, HEADS.map(([head, name]) => h("th", { scope: "col", class: name }, head)))),
        this.body)));
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row) this.app.go("tasks", row.dataset.id);
    });
  }

  async look() {
    const { tasks, cut } = await get("/api/tasks", { status: this.status.value, q: this.search.value.trim(), limit: MOST });
    say(this.told, cut ? `the newest ${count(tasks.length)}; search for others` : plural(tasks.length, "task"));
    keyed(this.body, tasks, (task) => task.id, (task) => this.#make(task), (row, task) => this.#update(row, task));
    if (!this.body.querySelector("[tabindex='0']")) mark(this.body.firstElementChild ?? this.body, "tabindex", 0);
  }

  #make(task) {
    const row = h("tr", { tabindex: "-1" });
    row.dataset.id = task.id;
    const cells = { id: h("a", { href: this.app.href("tasks", task.id) }, brief(task.id, 40)), state: badge(task.status) };
    row.cells_ = cells;
    for (const [head, name] of HEADS) {
      const cell = h("td", { class: name }, cells[name]);
      if (!(name in cells)) cells[head] = cell;
      row.append(cell);
    }
    return row;
  }

  #update(row, task) {
    const cells = row.cells_;
    const now = this.app.now();
    rebadge(cells.state, task.status);
    say(cells.Goal, task.goal ? brief(task.goal, 200) : task.path);
    mark(cells.Goal, "title", task.goal);
    say(cells.Subtasks, progress(task.subtasks ?? {}));
    say(cells.Began, ago(task.created_at, now));
    mark(cells.Began, "title", time(task.created_at));
    say(cells.Took, task.finished_at === null ? "" : duration(task.finished_at - task.created_at));
    say(cells.Tokens, task.tokens ? count(task.tokens) : "");
    say(cells.Cost, cost(task.cost));
  }

  key(event) {
    const at = this.body.querySelector("tr:focus") ?? this.body.querySelector("tr[tabindex='0']");
    if (!at) return false;
    const to = { ArrowDown: document.activeElement === at ? at.nextElementSibling : at, ArrowUp: at.previousElementSibling };
    if (event.key === "Enter") this.app.go("tasks", at.dataset.id);
    else if (event.key in to) {
      mark(at, "tabindex", -1);
      mark(to[event.key] ?? at, "tabindex", 0);
      (to[event.key] ?? at).focus();
    } else return false;
    return true;
  }

  failed(error) {
    say(this.told, error.message);
  }
}

function progress(subtasks) {
  const entries = Object.entries(subtasks);
  const all = entries.reduce((sum, [, n]) => sum + n, 0);
  if (!all) return "";
  const done = entries.reduce((sum, [status, n]) => sum + (DONE.has(status) ? n : 0), 0);
  const rest = entries.filter(([status]) => !DONE.has(status)).map(([status, n]) => `${count(n)} ${status}`);
  return [`${count(done)}/${count(all)} done`, ...rest].join(", ");
}
