// Which lines two texts differ in: the longest common subsequence, between what both begin and end with.

import { el } from "./element.js";

/** Beyond it a comparison would take seconds; then all of the middle counts as changed. */
const CELLS_MAX = 4_000_000;
const CONTEXT = 3;

/** `[sign, line]` each: ` ` in both, `-` only before, `+` only after. */
export function difference(before, after) {
  const [a, b] = [before, after].map((text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n")));
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const middle = compared(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const same = (line) => [" ", line];
  return [...a.slice(0, start).map(same), ...middle, ...a.slice(a.length - end).map(same)];
}

function compared(a, b) {
  if (a.length * b.length > CELLS_MAX) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push([" ", a[i]]);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && lengths[i + 1][j] >= lengths[i][j + 1])) lines.push(["-", a[i++]]);
    else lines.push(["+", b[j++]]);
  }
  return lines;
}

/** As a list of lines, with what didn't change folded away. */
export function differenceView(before, after) {
  const lines = difference(before, after);
  const isNear = lines.map((_, index) => lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(([sign]) => sign !== " "));
  const names = { "+": "added", "-": "removed", " ": "same" };
  const rows = [];
  lines.forEach(([sign, line], index) => {
    if (isNear[index]) rows.push(el("span", { className: `line ${names[sign]}` }, `${sign} ${line}\n`));
    else if (index === 0 || isNear[index - 1]) rows.push(el("span", { className: "line fold" }, "  …\n"));
  });
  if (!rows.length) rows.push(el("span", { className: "line fold" }, "  No line differs.\n"));
  return el("pre", { className: "difference", tabIndex: 0, role: "region", "aria-label": "Lines that change" }, ...rows);
}
