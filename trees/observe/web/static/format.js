// Writes times, durations and numbers. Pure.

/** A duration in seconds, short: 0.03 s, 4.2 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  const s = Math.max(0, seconds);
  if (s < 0.1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return pair(s, 60, "min", 1, "s");
  if (s < 86400) return pair(s, 3600, "h", 60, "min");
  return pair(s, 86400, "d", 3600, "h");
}

function pair(seconds, large, largeName, small, smallName) {
  const whole = Math.floor(seconds / large);
  const rest = Math.floor((seconds - whole * large) / small);
  return rest ? `${whole} ${largeName} ${rest} ${smallName}` : `${whole} ${largeName}`;
}

/** How long ago something was. */
export function ago(at, now) {
  return at === null || at === undefined ? "" : `${duration(now - at)} ago`;
}

/** The time of day; with the day where that is not today. */
export function time(at) {
  if (at === null || at === undefined) return "";
  const date = new Date(at * 1000);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${days(date)} `;
  return `${day}${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function days(date) {
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

function two(number) {
  return String(number).padStart(2, "0");
}

/** A count with its thousands apart. */
export function count(number) {
  return number === null || number === undefined ? "" : Number(number).toLocaleString("en-US");
}

/** A cost. */
export function cost(amount) {
  if (!amount) return "";
  return Number(amount).toLocaleString("en-US", { maximumFractionDigits: amount < 1 ? 4 : 2 });
}

/** A noun with its count. */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** No more than so many characters. */
export function brief(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
