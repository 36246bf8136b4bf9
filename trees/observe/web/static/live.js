// Follows the tree: the stream of events, and views that look again.
//
// An event says that something has changed, and where; a view then looks again. Views look so often that the server
// spends no more than a fiftieth of its time on it, a few times at once after a quiet moment, and every two seconds for
// what has no event (depths, ages). A page that nobody sees is closed: no stream, no looks.

const SOON_MS = 60;
const LEAST_MS = 500;
const MOST_MS = 3000;
const IDLE_MS = 2000;
const SHARE = 50;
const BURST = 3;
const MOST_TIMES = 200;

/** The stream of events. `on(listener)` gets each event; `state(listener)`: live, connecting, paused, lost. */
export class Live {
  #listeners = new Set();
  #states = new Set();
  #source = null;
  #again = null;
  state = "connecting";

  constructor(url = "/events") {
    this.url = url;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.open()));
  }

  on(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  onState(listener) {
    this.#states.add(listener);
    listener(this.state);
  }

  open() {
    if (this.#source || document.hidden) return;
    this.#become("connecting");
    const source = new EventSource(this.url);
    this.#source = source;
    source.addEventListener("open", () => {
      this.#become("live");
      this.#tell({ name: "connected", path: null, at: null });
    });
    source.addEventListener("change", (message) => this.#tell(read(message.data)));
    source.addEventListener("lost", (message) => this.#tell({ name: "lost", path: null, ...read(message.data) }));
    source.addEventListener("error", () => {
      this.#become("connecting");
      if (source.readyState === EventSource.CLOSED) this.#retry();
    });
  }

  pause() {
    this.#close();
    this.#become("paused");
  }

  #retry() {
    this.#close();
    this.#again = setTimeout(() => this.open(), MOST_MS);
  }

  #close() {
    clearTimeout(this.#again);
    this.#source?.close();
    this.#source = null;
  }

  #become(state) {
    this.state = state;
    for (const listener of this.#states) listener(state);
  }

  #tell(event) {
    if (event) for (const listener of this.#listeners) listener(event);
  }
}

function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Looks again for a view: soon after an event, and every two seconds. `stop()` when the view goes. */
export class Looker {
  #timer = null;
  #due = Infinity;
  #busy = false;
  #again = false;
  #paid = 0; // when what the looks so far have cost is paid off
  #gap = LEAST_MS;
  #stopped = false;

  constructor(look, idle = IDLE_MS) {
    this.look = look;
    this.idle = idle;
  }

  /** Look at once. */
  now() {
    this.#plan(0);
  }

  /** Look soon: many calls are one look. */
  soon() {
    this.#plan(Math.max(SOON_MS, this.#paid - BURST * this.#gap - performance.now()));
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #plan(wait) {
    if (this.#stopped) return;
    if (this.#busy) {
      this.#again = true;
      return;
    }
    const due = performance.now() + wait;
    if (due >= this.#due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.#run(), wait);
  }

  async #run() {
    this.#due = Infinity;
    if (document.hidden) {
      this.#plan(this.idle);
      return;
    }
    this.#busy = true;
    const began = performance.now();
    try {
      await this.look();
    } finally {
      this.#busy = false;
      const ended = performance.now();
      this.#gap = Math.min(MOST_MS, Math.max(LEAST_MS, SHARE * (ended - began)));
      this.#paid = Math.max(ended, this.#paid) + this.#gap;
      const again = this.#again;
      this.#again = false;
      if (again) this.soon();
      else this.#plan(Math.max(this.idle, this.#gap));
    }
  }
}

/** Counts what happened at each path in the last minute, for sparklines. Bounded. */
export class Recent {
  #times = new Map();

  constructor(period = 60, most = 2000) {
    this.period = period;
    this.most = most;
  }

  add(path, at) {
    const times = this.#times.get(path) ?? [];
    times.push(at);
    if (times.length > MOST_TIMES) times.shift();
    this.#times.delete(path);
    this.#times.set(path, times);
    if (this.#times.size > this.most) this.#times.delete(this.#times.keys().next().value);
  }

  /** An event tells of it; a look may have been sooner. */
  hear(path, at) {
    this.recall(path, [at]);
  }

  /** Take over what happened; what an event or a look has told counts once. Returns how many were new. */
  recall(path, times) {
    if (!times.length) return 0;
    const known = new Set(this.#times.get(path));
    const fresh = times.slice(-MOST_TIMES).filter((at) => !known.has(at));
    for (const at of fresh) this.add(path, at);
    return fresh.length;
  }

  /** So many counts, the newest last. */
  buckets(path, now, many = 20) {
    const counts = new Array(many).fill(0);
    for (const at of this.#times.get(path) ?? []) {
      const place = many - 1 - Math.floor(((now - at) / this.period) * many);
      if (place >= 0) counts[Math.min(place, many - 1)] += 1;
    }
    return counts;
  }
}
