// The tree, as it is declared and as it is now.
//
// The server folds what is large; `open` is what somebody has unfolded there, `shut` what somebody has folded here.
// A row keeps its element while its path is there, so that focus and selection stay. An event changes its row at once;
// the next look corrects it.

import { get } from "./api.js";
import { ChildPanel } from "./child.js";
import { badge, h, keyed, mark, put, rebadge, say, words } from "./dom.js";
import { brief, count, duration, plural } from "./format.js";
import { columns, spark } from "./spark.js";

const MOST = 500;
const FLASH_MS = 1600;
const HEADS = [
  ["Child", "id"], ["State", "state"], ["Last error", "error"], ["Restarts", "restarts"], ["Last minute", "lately"], ["Mailbox", "mailbox"],
  ["Current", "current"], ["Breaker", "breaker"], ["Incarnation", "incarnation"], ["Where", "where"],
];
const AFTER = { child_restarting: "restarting", child_started: "running", child_parked: "parked" };
const CLEAN = new Set(["normal", "shutdown", "scaled_down", "replaced", "removed"]);

export class TreeView {
  #rows = [];
  #shown = [];
  #elements = new Map();
  #unfolded = new Set();
  #open = new Set();
  #shut = new Set();
  #incarnations = new Map();
  #selected = null;
  #troubled = false;

  constructor(app, selected) {
    this.app = app;
    this.#selected = selected ?? null;
    this.filter = h("input", {
      type: "search", placeholder: "Filter by path   /", "aria-label": "Filter by path", oninput: () => this.#search(),
    });
    this.trouble = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.#toggleTroubled() },
      "Only trouble");
    this.summary = h("p", { class: "summary", role: "status" });
    this.body = h("tbody", {});
    this.cut = h("p", { class: "none", hidden: true });
    this.panel = h("aside", { class: "panel", "aria-label": "Child", hidden: true });
    this.element = h("div", { class: "split" },
      h("section", { class: "pane", "aria-label": "Tree" },
        h("div", { class: "bar" }, this.filter, this.trouble, this.summary),
        h("div", { class: "scroll grow" },
          h("table", { class: "tree", role: "treegrid", "aria-label": "Children" },
            h("thead", {}, h("tr", {}, HEADS.map(([head, name]) => h("th", { scope: "col", class: name }, head)))),
            this.body),
          this.cut)),
      this.panel);
    this.body.addEventListener("click", (event) => this.#click(event));
  }

  async look() {
    const only = this.#troubled ? "troubled" : "";
    const snapshot = await get("/api/snapshot", { open: [...this.#open].join(","), q: this.#text(), only, limit: MOST });
    this.app.head(snapshot);
    this.#rows = snapshot.rows;
    this.#unfolded = new Set(this.#rows.map(({ path }) => path.slice(0, Math.max(0, path.lastIndexOf("/")))));
    this.#total = snapshot.total;
    this.#children = snapshot.children ?? null;
    this.#noun = snapshot.role === "store" ? ["tree"] : ["child", "children"];
    this.#cutShort = snapshot.cut;
    this.#found = snapshot.found ?? null;
    for (const row of this.#rows) this.#notice(row);
    this.#draw();
    await this.child?.look(this.#rows.find((row) => row.path === this.#selected));
    if (this.#selected && !this.child) await this.#openPanel();
  }
  #total = 0;
  #children = null;
  #noun = ["child", "children"];
  #cutShort = false;
  #found = null;

  /** What is looked for; a member of a pool is found by that pool, which has the row. */
  #text() {
    return this.filter.value.trim().toLowerCase().split("#")[0];
  }

  /** Filter what is here at once; the server then adds what is folded. */
  #search() {
    this.#draw();
    this.app.looker.soon();
  }

  /** A restart that no event told of: of before the page, while it was away, or of a source without events. */
  #notice(row) {
    const before = this.#incarnations.get(row.path);
    const times = row.restarted_at ?? this.#guess(row, before);
    const missed = this.app.restarts.recall(row.path, times);
    if (missed && before !== undefined) this.#flash(row.path);
    this.#incarnations.set(row.path, { incarnation: row.incarnation, flashed: before?.flashed ?? -Infinity });
  }

  /** The time of a restart, from a source that knows none: it has another incarnation than at the last look. */
  #guess(row, before) {
    const is_new = before !== undefined && row.incarnation > before.incarnation && this.app.now() - before.flashed > 2;
    return is_new ? [this.app.now()] : [];
  }

  event(event) {
    if (!event.path || !event.name.startsWith("child_")) return;
    const own = this.#rows.find((row) => row.path === event.path);
    if (own && event.name in AFTER) {
      own.state = AFTER[event.name];
      if (event.incarnation) own.incarnation = event.incarnation;
    }
    const restarts = event.name === "child_restarting";
    if (restarts || (event.name === "child_exited" && !CLEAN.has(event.reason))) {
      const at = this.#flash(event.path);
      if (restarts && at && at !== event.path) this.app.restarts.hear(at, event.at ?? this.app.now());
    }
    if (own) this.#redraw(own);
  }

  #redraw(row) {
    const element = this.#elements.get(row.path);
    if (element) this.#update(element, row);
  }

  /** Light up a row, or that of the nearest one above it which is drawn; returns the path of that, if there is one. */
  #flash(path) {
    let at = path;
    while (at && !this.#elements.get(at)?.isConnected) at = above(at);
    const element = this.#elements.get(at);
    if (!element) return null;
    const known = this.#incarnations.get(path);
    if (known) known.flashed = this.app.now();
    element.classList.remove("flash");
    void element.offsetWidth; // begins the animation anew
    element.classList.add("flash");
    clearTimeout(element.calm);
    element.calm = setTimeout(() => element.classList.remove("flash"), FLASH_MS);
    return at;
  }

  #toggleTroubled() {
    this.#troubled = !this.#troubled;
    mark(this.trouble, "aria-pressed", String(this.#troubled));
    this.#search();
  }

  #draw() {
    this.#shown = this.#wanted();
    keyed(this.body, this.#shown.slice(0, MOST), (row) => row.path, (row) => this.#make(row),
      (element, row) => this.#update(element, row));
    if (this.#shown.length && !this.body.querySelector("[tabindex='0']")) {
      mark(this.body.firstElementChild, "tabindex", 0);
    }
    for (const path of this.#elements.keys()) {
      if (!this.#elements.get(path).isConnected) this.#elements.delete(path);
    }
    this.#tell();
  }

  /** Rows that are not folded here, and pass the filter; what stands above a match stays, to say where it is. */
  #wanted() {
    const text = this.#text();
    const passes = (row) => (!text || row.path.toLowerCase().includes(text)) && (!this.#troubled || troubled(row));
    if (text || this.#troubled) {
      const kept = new Set();
      for (const row of this.#rows) {
        if (passes(row)) for (const path of upwards(row.path)) kept.add(path);
      }
      return this.#rows.filter((row) => kept.has(row.path));
    }
    let below = null;
    return this.#rows.filter((row) => {
      if (below !== null && row.depth > below) return false;
      below = this.#shut.has(row.path) ? row.depth : null;
      return true;
    });
  }

  #tell() {
    const states = Object.entries(this.#children ?? {});
    const all = this.#children ? states.reduce((sum, [, n]) => sum + n, 0) : this.#total;
    const parts = states.sort((a, b) => b[1] - a[1]).map(([state, n]) => [badge(state), ` ${count(n)}`]);
    const told = `${all} ${states.join(" ")}`;
    if (this.summary.told !== told) {
      this.summary.told = told;
      put(this.summary, h("strong", {}, plural(all, ...this.#noun)), parts.map((part) => h("span", {}, part)));
    }
    mark(this.cut, "hidden", this.#shown.length > 0 && !this.#cutShort);
    const full = this.#rows.length >= MOST ? `No more than ${MOST} are drawn: fold what you do not need.` : "Others are folded.";
    const many = this.#found > MOST ? `${count(this.#found)} pass the filter; those are drawn whose id begins with it. ` : "";
    say(this.cut, this.#shown.length ? `${many}${count(this.#rows.length)} of ${plural(this.#total, "child", "children")} here. ${full}`
      : "No child passes the filter.");
  }

  #make(row) {
    const element = h("tr", { role: "row", tabindex: "-1", "aria-level": row.depth + 1 });
    const cells = {
      twist: h("span", { class: "twist", "aria-hidden": "true" }),
      id: h("span", { class: "name" }, row.id),
      kind: h("span", { class: "kind" }),
      size: h("span", { class: "size" }),
      state: badge(row.state),
      error: h("span", {}),
      restarts: h("span", {}),
      lately: spark("no restarts in the last minute"),
      mailbox: h("span", {}),
      current: h("span", {}),
      breaker: h("span", {}),
      incarnation: h("span", {}),
      where: h("span", {}),
    };
    element.cells_ = cells;
    const deep = Math.min(row.depth, 8);
    for (const [, name] of HEADS) {
      const inside = name === "id" ? [cells.twist, cells.id, cells.size, cells.kind] : [cells[name]];
      element.append(h("td", { role: "gridcell", class: name === "id" ? `id deep-${deep}` : name }, inside));
    }
    element.dataset.path = row.path;
    this.#elements.set(row.path, element);
    return element;
  }

  #update(element, row) {
    const cells = element.cells_;
    this.#elements.set(row.path, element);
    const unfolds = row.kind === "supervisor";
    const folded = !this.#unfolded.has(row.path) || this.#shut.has(row.path);
    say(cells.twist, unfolds ? (folded ? "▸" : "▾") : "");
    mark(element, "aria-expanded", unfolds ? String(!folded) : null);
    mark(element, "aria-selected", String(row.path === this.#selected));
    mark(element, "data-kind", row.kind);
    mark(element, "data-trouble", troubled(row) || null);
    say(cells.kind, row.kind === "supervisor" ? words(row.strategy ?? "") : row.kind === "pool" ? "pool" : row.restart);
    say(cells.size, row.size && (row.kind === "pool" || folded) ? `×${count(row.size)}` : "");
    const doing = row.doing && row.doing !== row.state ? words(row.doing) : row.busy ? `${count(row.busy)} busy` : null;
    rebadge(cells.state, row.state, doing);
    say(cells.error, row.last_error);
    mark(cells.error, "title", row.last_error);
    say(cells.restarts, budget(row));
    mark(cells.restarts, "data-near", row.max_restarts && row.restarts_used >= row.max_restarts ? "yes" : null);
    const counts = this.app.restarts.buckets(row.path, this.app.now());
    const sum = counts.reduce((a, b) => a + b, 0);
    columns(cells.lately, counts, sum ? `${plural(sum, "restart")} in the last minute` : "no restarts in the last minute");
    say(cells.mailbox, row.mailbox ? count(row.mailbox) : row.mailbox === 0 ? "0" : "");
    mark(cells.mailbox, "data-deep", row.mailbox >= 1000 ? "very" : row.mailbox >= 100 ? "yes" : row.mailbox ? "some" : null);
    say(cells.current, row.current_s === null ? "" : duration(row.current_s));
    mark(cells.current, "data-deep", row.current_s >= 60 ? "very" : row.current_s >= 10 ? "yes" : null);
    say(cells.breaker, row.breaker && row.breaker !== "closed" ? words(row.breaker) : row.breaker ?? "");
    mark(cells.breaker, "data-breaker", row.breaker);
    say(cells.incarnation, row.incarnation || "");
    say(cells.where, where(row));
  }

  #click(event) {
    const element = event.target.closest("tr");
    if (!element) return;
    const path = element.dataset.path;
    if (event.target.closest(".twist") && element.hasAttribute("aria-expanded")) this.#fold(path);
    else this.app.go("tree", path);
    this.#focus(element);
  }

  #fold(path) {
    if (this.#shut.delete(path)) this.#draw();
    else if (!this.#unfolded.has(path)) {
      this.#open.add(path);
      this.app.looker.now();
    } else if (this.#open.delete(path)) this.app.looker.now();
    else {
      this.#shut.add(path);
      this.#draw();
    }
  }

  #focus(element) {
    if (!element) return;
    for (const other of this.body.querySelectorAll("[tabindex='0']")) mark(other, "tabindex", -1);
    mark(element, "tabindex", 0);
    element.focus();
  }

  /** Open a child beside the tree; null closes it. */
  select(path) {
    this.#selected = path;
    this.child = null;
    for (const row of this.#shown) this.#redraw(row);
    if (path === null) mark(this.panel, "hidden", true);
    else this.app.guard(() => this.#openPanel());
  }

  async #openPanel() {
    const row = this.#rows.find((each) => each.path === this.#selected);
    this.child = new ChildPanel(this.app, this.#selected);
    put(this.panel, this.child.element);
    mark(this.panel, "hidden", null);
    await this.child.look(row);
  }

  key(event) {
    const at = this.body.querySelector("tr:focus") ?? this.body.querySelector("tr[tabindex='0']");
    if (event.key === "Escape" && this.#selected !== null) {
      this.app.go("tree");
      this.#focus(at);
      return true;
    }
    if (!at || document.activeElement?.closest(".panel, .bar")) return false;
    const expanded = at.getAttribute("aria-expanded");
    const move = {
      ArrowDown: () => this.#focus(document.activeElement === at ? at.nextElementSibling : at),
      ArrowUp: () => this.#focus(at.previousElementSibling),
      Home: () => this.#focus(this.body.firstElementChild),
      End: () => this.#focus(this.body.lastElementChild),
      ArrowRight: () => (expanded === "false" ? this.#fold(at.dataset.path) : this.#focus(at.nextElementSibling)),
      ArrowLeft: () => (expanded === "true" ? this.#fold(at.dataset.path) : this.#focus(this.#above(at))),
      Enter: () => this.app.go("tree", at.dataset.path),
    }[event.key];
    move?.();
    return Boolean(move);
  }

  #above(element) {
    const path = element.dataset.path;
    return this.#elements.get(path.slice(0, Math.max(0, path.lastIndexOf("/"))));
  }

  failed(error) {
    say(this.summary, error.message);
    this.summary.told = null;
  }
}

function troubled(row) {
  return !["running", "idle", "stopped"].includes(row.state) || row.breaker === "open" || row.breaker === "half_open";
}

function budget(row) {
  if (row.state === "parked") return `parked after ${plural(row.restarts_used ?? row.restarts, "restart")}`;
  if (row.max_restarts !== null && row.max_restarts !== undefined) {
    return `${row.restarts_used ?? 0}/${row.max_restarts} in ${duration(row.within_s).replace(".0 ", " ")}`;
  }
  return row.restarts ? count(row.restarts) : "";
}

/** The node and the process; of a root in a fleet, who leads it, and for how long its lease still holds. */
function where(row) {
  const holder = row.holder && row.state === "stopped" ? `was ${row.holder}` : row.holder;
  const lease = row.lease_left_s > 0 ? `lease ${duration(row.lease_left_s)}` : "";
  const node = row.node ? `node ${brief(row.node, 12)}` : "";
  return [holder, lease, node, row.pid && `pid ${row.pid}`].filter(Boolean).join(" ");
}

/** What a child stands in: its supervisor, or of a member of a pool that pool; "" of the root. */
function above(path) {
  return path.slice(0, Math.max(0, path.lastIndexOf("/"), path.lastIndexOf("#")));
}

function upwards(path) {
  const parts = path.split("/");
  return parts.map((_, place) => parts.slice(0, place + 1).join("/"));
}
