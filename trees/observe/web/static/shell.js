// What stands around every view: colours, dialogs, messages.

import { h, mark, say } from "./dom.js";

const THEMES = ["system", "light", "dark"];
const SIGNS = { system: "◐", light: "☀", dark: "☾" };
const STAY_MS = 6000;

/** Use the colours that were chosen, or those of the system. */
export function useTheme(button, theme = localStorage.getItem("regrow-theme") ?? "system") {
  mark(document.documentElement, "data-theme", theme === "system" ? null : theme);
  say(button, SIGNS[theme]);
  mark(button, "aria-label", `Colours: ${theme === "system" ? "as the system" : theme}`);
  mark(button, "title", `Colours: ${theme === "system" ? "as the system" : theme} (t)`);
}

/** Go on to the next choice of colours. */
export function switchTheme(button) {
  const now = localStorage.getItem("regrow-theme") ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  localStorage.setItem("regrow-theme", next);
  useTheme(button, next);
}

/** Show a message for some seconds. */
export function toast(text, kind = "good") {
  const shown = h("div", { class: "toast", "data-kind": kind }, kind === "bad" ? `Not done: ${text}` : text);
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), STAY_MS);
}

function dialog(label, ...children) {
  const shown = h("dialog", { "aria-label": label }, ...children);
  shown.addEventListener("close", () => shown.remove());
  document.body.append(shown);
  shown.showModal();
  return shown;
}

/** Ask whether to go on. */
export function confirmed(question) {
  return new Promise((resolve) => {
    const shown = dialog(question, h("p", {}, question), h("form", { method: "dialog", class: "acts" },
      h("button", { value: "no" }, "Leave it"),
      h("button", { value: "yes", class: "danger" }, "Do it")));
    shown.addEventListener("close", () => resolve(shown.returnValue === "yes"));
  });
}

/** Ask for the token. */
export function askForToken(why, use, leave = () => {}) {
  const input = h("input", { type: "password", autocomplete: "off", "aria-label": "Token", required: true });
  const shown = dialog("Token",
    h("h2", {}, "This needs the token"),
    h("p", { class: "why" }, why),
    h("p", {}, "It stands in the link that the program printed when it began: …/?token=…"),
    h("form", { method: "dialog", class: "acts" }, input,
      h("button", { value: "leave", type: "button", onclick: () => shown.close("leave") }, "Cancel"),
      h("button", { value: "use", class: "first" }, "Use it")));
  shown.addEventListener("close", () => (shown.returnValue === "use" && input.value ? use(input.value) : leave()));
}

const HELP = [
  ["1 2 3 4", "Tree, Tasks, Questions, Now"],
  ["/", "filter or search"],
  ["↑ ↓", "previous and next row"],
  ["→ ←", "unfold and fold; to the supervisor"],
  ["Enter", "open what is selected"],
  ["Esc", "close what is open"],
  ["t", "colours: system, light, dark"],
  ["?", "this help"],
];

/** Show the keys. */
export function showKeys() {
  dialog("Keys", h("h2", {}, "Keys"),
    h("table", { class: "keys" }, h("tbody", {}, HELP.map(([key, does]) => h("tr", {},
      h("th", { scope: "row" }, key.split(" ").map((each) => h("kbd", {}, each))), h("td", {}, does))))),
    h("form", { method: "dialog", class: "acts" }, h("button", { class: "first" }, "Close")));
}
