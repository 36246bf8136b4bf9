// The graph of a task, drawn from left to right: a subtask stands right of all that it depends on.
//
// A column is the longest way from a beginning. Within a column, places follow the mean place of what a node depends on,
// then of what depends on it. Where there are many nodes, those of one column, worker and status are drawn as one; where
// these are still many, those of one column and status.

import { h, put, s } from "./dom.js";
import { brief, count, plural } from "./format.js";

const MOST = 80;
const WIDE = 176;
const TALL = 40;
const GAP_X = 56;
const GAP_Y = 12;
const EDGE = 8;
const CHARS = 22;
const SIGNS = {
  pending: "◌", queued: "◌", running: "●", retrying: "↻", waiting: "?", succeeded: "✓", failed: "✕", cancelled: "■",
  skipped: "–", compensated: "↶",
};

/** Draw nodes into an element; `pick(id)` is called with the node that was clicked. */
export function drawGraph(element, nodes, pick) {
  if (!nodes.length) {
    put(element, h("p", { class: "none" }, "There is no plan yet."));
    return;
  }
  const drawn = layout(few(nodes));
  const width = Math.max(...drawn.map(({ x }) => x)) + WIDE + EDGE;
  const height = Math.max(...drawn.map(({ y }) => y)) + TALL + EDGE;
  const known = new Map(drawn.map((node) => [node.id, node]));
  const edges = drawn.flatMap((to) => to.depends.filter((id) => known.has(id)).map((id) => edge(known.get(id), to)));
  put(element, s("svg", {
    class: "dag", viewBox: `0 0 ${width} ${height}`, width, height, role: "group",
    "aria-label": `Graph of ${plural(nodes.length, "subtask")}`,
  }, edges, drawn.map((node) => box(node, pick))));
}

/** Columns: the longest way from a node without dependencies. Pure; a circle, which no plan has, ends as it is. */
export function columnsOf(nodes) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const columns = new Map();
  const entered = new Set();
  for (const first of nodes) {
    const stack = [first.id];
    while (stack.length) {
      const id = stack.at(-1);
      const before = known.get(id).depends.filter((each) => known.has(each));
      const open = before.filter((each) => !columns.has(each) && !entered.has(each));
      if (!columns.has(id) && open.length) {
        entered.add(id);
        stack.push(...open);
        continue;
      }
      stack.pop();
      if (!columns.has(id)) columns.set(id, Math.max(-1, ...before.map((each) => columns.get(each) ?? -1)) + 1);
    }
  }
  return columns;
}

function layout(nodes) {
  const columns = columnsOf(nodes);
  const after = new Map(nodes.map((node) => [node.id, []]));
  for (const node of nodes) for (const id of node.depends) after.get(id)?.push(node.id);
  const stacks = [];
  for (const node of nodes) (stacks[columns.get(node.id)] ??= []).push(node);
  const places = new Map();
  const number = (stack) => stack.forEach((node, place) => places.set(node.id, place - stack.length / 2));
  stacks.forEach(number);
  const mean = (ids, else_) => {
    const found = ids.filter((id) => places.has(id)).map((id) => places.get(id));
    return found.length ? found.reduce((a, b) => a + b, 0) / found.length : else_;
  };
  const sort = (stack, near) => {
    const wanted = new Map(stack.map((node) => [node.id, mean(near(node), places.get(node.id))]));
    stack.sort((a, b) => wanted.get(a.id) - wanted.get(b.id));
    number(stack);
  };
  for (let sweep = 0; sweep < 3; sweep += 1) {
    stacks.forEach((stack) => sort(stack, (node) => node.depends));
    stacks.toReversed().forEach((stack) => sort(stack, (node) => after.get(node.id)));
  }
  const tallest = Math.max(...stacks.map((stack) => stack.length));
  return stacks.flatMap((stack, column) => stack.map((node, place) => ({
    ...node,
    x: EDGE + column * (WIDE + GAP_X),
    y: EDGE + (place + (tallest - stack.length) / 2) * (TALL + GAP_Y),
  })));
}

function few(nodes) {
  const columns = columnsOf(nodes);
  const ways = [(node) => [columns.get(node.id), node.worker, node.status], (node) => [columns.get(node.id), node.status]];
  return ways.reduce((drawn, way) => (drawn.length > MOST ? folded(nodes, way) : drawn), nodes);
}

/** Nodes that are alike in this way as one node. */
function folded(nodes, alike) {
  const groups = new Map();
  const group = new Map();
  for (const node of nodes) {
    const key = JSON.stringify(alike(node));
    group.set(node.id, key);
    if (groups.has(key)) groups.get(key).members.push(node);
    else groups.set(key, { ...node, id: key, members: [node], depends: new Set() });
  }
  for (const node of nodes) for (const id of node.depends) groups.get(group.get(node.id)).depends.add(group.get(id));
  return [...groups.values()].map(({ depends, members, ...node }) => ({
    ...node,
    depends: [...depends].filter((id) => id !== node.id),
    title: members.length === 1 ? members[0].id : `${common(members)} ×${count(members.length)}`,
    first: members[0].id,
  }));
}

function common(members) {
  const [first] = members;
  return members.every(({ worker }) => worker === first.worker) ? first.worker : "subtasks";
}

function edge(from, to) {
  const [x1, y1, x2, y2] = [from.x + WIDE, from.y + TALL / 2, to.x, to.y + TALL / 2];
  const bend = Math.max(GAP_X / 2, (x2 - x1) / 2);
  return s("path", { class: "edge", "data-status": from.status, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
}

function box(node, pick) {
  const title = node.title ?? node.id;
  const who = node.worker && node.worker !== title ? ` · ${node.worker}` : "";
  const told = `${SIGNS[node.status] ?? "·"} ${node.status}${who}`;
  return s("g", {
    class: "node", "data-status": node.status, transform: `translate(${node.x} ${node.y})`, role: "button", tabindex: "0",
    "aria-label": `${title}, ${node.worker}, ${node.status}`,
    onclick: () => pick(node.first ?? node.id),
    onkeydown: (event) => {
      if (event.key === "Enter" || event.key === " ") pick(node.first ?? node.id);
    },
  },
  s("title", {}, `${title}: ${node.status}${node.depends.length && !node.first ? `, after ${node.depends.join(", ")}` : ""}`),
  s("rect", { width: WIDE, height: TALL, rx: 5 }),
  s("rect", { class: "stripe", width: 4, height: TALL, rx: 2 }),
  s("text", { x: 12, y: 17, class: "title" }, brief(title, CHARS)),
  s("text", { x: 12, y: 32, class: "told" }, brief(told, CHARS + 4)));
}
