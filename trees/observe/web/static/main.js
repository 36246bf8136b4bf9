// Starts the page: the frame, the address, the keys. A view is a class: `new View(app, argument)` with
// `element`, `look()` (ask the server and draw), `event(event)`, `key(event)` and `leave()`.

import { ApiError, adopt, enter, get, keep, post } from "./api.js";
import { mark, put, say } from "./dom.js";
import { plural, time } from "./format.js";
import { Live, Looker, Recent } from "./live.js";
import { NowView } from "./now.js";
import { QuestionsView } from "./questions.js";
import { askForToken, confirmed, showKeys, switchTheme, toast, useTheme } from "./shell.js";
import { TaskView } from "./task.js";
import { TasksView } from "./tasks.js";
import { TreeView } from "./tree.js";

const VIEWS = { tree: TreeView, tasks: TasksView, task: TaskView, questions: QuestionsView, now: NowView };
const KEYS = { 1: "tree", 2: "tasks", 3: "questions", 4: "now" };
const FEED = 100;
const id = (name) => document.getElementById(name);

class App {
  live = new Live();
  restarts = new Recent();
  flows = new Recent();
  feed = [];
  shift = 0;
  view = null;
  stopped = false;
  as_of = null;
  looker = null;

  start() {
    adopt();
    useTheme(id("theme"));
    id("theme").addEventListener("click", () => switchTheme(id("theme")));
    id("help").addEventListener("click", showKeys);
    addEventListener("hashchange", () => this.route());
    addEventListener("keydown", (event) => this.key(event));
    this.live.onState(() => this.tell());
    this.live.on((event) => this.event(event));
    this.frame = new Looker(() => this.lookAtFrame(), 5000);
    this.route();
    this.frame.now();
    this.live.open();
  }

  /** Say whether what is seen is live: the stream of a store whose trees have stopped is not. */
  tell() {
    const state = this.live.state === "live" && this.stopped ? "stopped" : this.live.state;
    mark(id("live"), "data-live", state);
    say(id("live"), state);
  }

  /** Until when what has not ended is known to run. */
  until() {
    return this.as_of ?? this.now();
  }

  /** Seconds since 1970 by the tree's clock. */
  now() {
    return Date.now() / 1000 + this.shift;
  }

  go(...parts) {
    location.hash = `#/${parts.map(encodeURIComponent).join("/")}`;
  }

  href(...parts) {
    return `#/${parts.map(encodeURIComponent).join("/")}`;
  }

  route() {
    const [name = "tree", argument] = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
    const kind = name === "tasks" && argument !== undefined ? "task" : name in VIEWS ? name : "tree";
    for (const link of document.querySelectorAll("nav a")) {
      mark(link, "aria-current", link.dataset.view === (kind === "task" ? "tasks" : kind) ? "page" : null);
    }
    if (kind === "tree" && this.view instanceof TreeView) {
      this.view.select(argument ?? null);
      return;
    }
    this.looker?.stop();
    this.view?.leave?.();
    this.view = new VIEWS[kind](this, argument);
    put(id("view"), this.view.element);
    this.looker = new Looker(() => this.guard(() => this.view.look()));
    this.looker.now();
  }

  event(event) {
    if (event.name === "connected") {
      this.looker.soon();
      this.frame.soon();
      return;
    }
    const at = event.at ?? this.now();
    this.flows.add("events", at);
    if (event.name === "subtask_succeeded") this.flows.add("subtasks", at);
    if (event.name === "child_restarting") this.restarts.hear(event.path, at);
    this.feed.push(event);
    if (this.feed.length > FEED) this.feed.shift();
    this.view?.event?.(event);
    this.looker.soon();
    if (/^(task|escalation|step)_/.test(event.name)) this.frame.soon();
  }

  async lookAtFrame() {
    await this.guard(async () => {
      const { questions } = await get("/api/questions");
      const asking = questions.length;
      mark(id("asking"), "hidden", !asking);
      say(id("asking"), asking || "");
    });
    if (!(this.view instanceof TreeView || this.view instanceof NowView)) {
      await this.guard(async () => this.head(await get("/api/snapshot", { limit: 1 })));
    }
  }

  /** What a snapshot says of the whole, into the frame. */
  head({ name, role, health, at, state: runs, as_of: last }) {
    this.shift = at - Date.now() / 1000;
    this.stopped = runs === "stopped";
    this.as_of = last ?? null;
    this.tell();
    say(id("name"), name);
    document.title = `${name} · regrow`;
    mark(id("role"), "hidden", !role || role === "alone");
    say(id("role"), role);
    const problems = health?.problems ?? [];
    const state = this.stopped ? `stopped${last ? `, as of ${time(last)}` : ""}` : runs === "unknown" ? "not known whether it runs"
      : !health ? null : !health.ok ? "failing" : !health.ready ? "not ready" : "healthy";
    mark(id("health"), "hidden", state === null);
    mark(id("health"), "data-health", state);
    mark(id("health"), "title", problems.map(({ path, what }) => `${path}: ${what}`).join("\n") || null);
    say(id("health"), problems.length && !this.stopped ? `${state}: ${plural(problems.length, "problem")}` : state);
  }

  /** Run what asks the server; show why where it fails. */
  async guard(act) {
    try {
      await act();
      this.refused = null;
      mark(document.body, "data-stale", null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401) this.refuse(error);
      else {
        mark(document.body, "data-stale", true);
        this.view?.failed?.(error);
      }
    }
  }

  refuse(error) {
    if (this.refused) return;
    this.refused = error;
    askForToken(error.message, enter, () => (this.refused = null));
  }

  /** Ask for an act, and say how it went. Returns the answer, or null. */
  async act(path, body, done, question = null) {
    if (question && !(await confirmed(question))) return null;
    try {
      const answer = await post(path, body);
      toast(answer?.text || done, "good"); // a store says that its tree is yet to take it
      this.looker.now();
      this.frame.now();
      return answer ?? {};
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401) {
        askForToken(error.message, async (text) => {
          keep(text);
          await this.act(path, body, done);
        });
      } else toast(error.message, "bad");
      return null;
    }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.matches("input, textarea, select");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing) return;
    if (event.key === "/") {
      const filter = this.view?.element.querySelector("input[type=search]");
      filter?.focus();
      filter?.select();
    } else if (event.key === "?") showKeys();
    else if (event.key === "t") switchTheme(id("theme"));
    else if (event.key in KEYS) this.go(KEYS[event.key]);
    else if (!this.view?.key?.(event)) return;
    event.preventDefault();
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

new App().start();
