// Asks the server. The token is kept for this tab alone, and is taken out of the address.

const KEY = "regrow-token";

/** An answer that is no success: `.status` (0: nobody answered), and the server's sentence. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Take the token out of the address, where it would be copied with a link. */
export function adopt() {
  const address = new URL(location.href);
  const token = address.searchParams.get("token");
  if (token === null) return;
  sessionStorage.setItem(KEY, token);
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
}

/** The token, or null. */
export function token() {
  return sessionStorage.getItem(KEY);
}

/** Open the page anew with a token: the server then sets the cookie that looking needs. */
export function enter(text) {
  const address = new URL(location.href);
  address.searchParams.set("token", text);
  location.assign(address);
}

/** Keep a token for acts, without opening the page anew. */
export function keep(text) {
  sessionStorage.setItem(KEY, text);
}

async function ask(path, options) {
  const headers = { Accept: "application/json", ...options.headers };
  let response;
  try {
    response = await fetch(path, { ...options, headers, credentials: "same-origin", cache: "no-store" });
  } catch {
    throw new ApiError(0, "The server does not answer.");
  }
  const text = await response.text();
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    body = { error: text };
  }
  if (!response.ok) throw new ApiError(response.status, sentence(body, response.status));
  return body;
}

function sentence(body, status) {
  const told = body?.error ?? body?.detail ?? body?.message;
  return typeof told === "string" && told ? told.slice(0, 300) : `The server answered ${status}.`;
}

/** GET: the cookie that came with the link is enough, and on loopback nothing is needed. With these values in the query. */
export function get(path, query = {}) {
  const values = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(values).toString();
  return ask(text ? `${path}?${text}` : path, { method: "GET" });
}

/** POST, with the token in its header, which no other site can send. */
export function post(path, body) {
  return ask(path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", ...(token() ? { Authorization: `Bearer ${token()}` } : {}) },
  });
}
