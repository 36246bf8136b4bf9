// Draws small columns: how often something happened lately.

import { mark, s } from "./dom.js";

/** An empty sparkline. */
export function spark(label, width = 60, height = 14) {
  return s("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
}

/** Draw counts into it, the newest last. Drawn anew only where a count has changed. */
export function columns(svg, counts, label) {
  const told = counts.join();
  if (svg.told === told) return;
  svg.told = told;
  const { width, height } = svg.viewBox.baseVal;
  const most = Math.max(2, ...counts);
  const step = width / counts.length;
  svg.replaceChildren(...counts.flatMap((count, place) => {
    if (!count) return [];
    const tall = Math.max(4, (height * count) / most);
    return [s("rect", { x: place * step, y: height - tall, width: Math.max(2, step - 0.5), height: tall })];
  }));
  mark(svg, "aria-label", label);
}
