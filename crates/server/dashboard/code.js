// A text area for YAML with line numbers, colours and marked lines. What is seen in colours is a copy behind the text,
// drawn anew as it changes; what is edited, selected and read aloud is an ordinary text area.

import { el } from "./element.js";

/** Beyond it the text is shown in one colour: colouring it would take longer than a key press may. */
const COLOURED_CHARS_MAX = 200_000;
const INDENT = "  ";
const TOKEN = /(#.*$)|("(?:[^"\\]|\\.)*"?|'[^']*'?)|([A-Za-z_][\w-]*)(?=\s*:(?:\s|$))|(\b\d[\d_]*(?:\.\d+)?[A-Za-z]*(?:\/\w+)?)|(\b(?:true|false|null|unlimited|exact|bounded|fast|async|paid|free|abuse|world|region)\b)/g;
const KINDS = ["comment", "text", "name", "number", "word"];

/** A line as spans; what isn't known is plain text. */
function coloured(line) {
  // A `#` begins a comment only after a space.
  const pieces = [];
  let end = 0;
  for (const match of line.matchAll(TOKEN)) {
    const kind = match.slice(1, 6).findIndex((group) => group !== undefined);
    if (kind === 0 && match.index > 0 && !/\s/.test(line[match.index - 1])) continue;
    if (match.index > end) pieces.push(line.slice(end, match.index));
    pieces.push(el("span", { className: `tok-${KINDS[kind]}` }, match[0]));
    end = match.index + match[0].length;
  }
  if (end < line.length) pieces.push(line.slice(end));
  return pieces;
}

/** `{ element, area, set(text), mark(errors), select(line, column) }`; an error has `line` and `message`. */
export function codeArea({ id, describedBy }) {
  const area = el("textarea", { id, spellcheck: false, autocomplete: "off", autocapitalize: "off", maxLength: 900_000, wrap: "off", "aria-describedby": describedBy });
  const paint = el("pre", { className: "paint", "aria-hidden": "true" });
  const gutter = el("pre", { className: "gutter", "aria-hidden": "true" });
  const element = el("div", { className: "code" }, gutter, el("div", { className: "code-text" }, paint, area));
  let marked = new Map();
  let leaves = false;

  function follow() {
    paint.scrollTop = area.scrollTop;
    paint.scrollLeft = area.scrollLeft;
    gutter.scrollTop = area.scrollTop;
  }

  function draw() {
    const lines = area.value.split("\n");
    const isLong = area.value.length > COLOURED_CHARS_MAX;
    const rows = lines.map((line, index) => {
      const problem = marked.get(index + 1);
      return el("span", { className: problem ? "row-bad" : "", title: problem }, ...(isLong ? [line] : coloured(line)), "\n");
    });
    paint.replaceChildren(...rows);
    gutter.replaceChildren(...lines.map((_, index) => el("span", { className: marked.has(index + 1) ? "row-bad" : "" }, `${index + 1}\n`)));
    follow();
  }

  area.addEventListener("input", () => {
    marked = new Map();
    draw();
  });
  area.addEventListener("scroll", follow);
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leaves = true;
    else if (event.key === "Tab" && !event.shiftKey && !leaves && !area.readOnly) {
      event.preventDefault();
      area.setRangeText(INDENT, area.selectionStart, area.selectionEnd, "end");
      area.dispatchEvent(new Event("input"));
    } else leaves = event.key === "Shift" && leaves;
  });
  new ResizeObserver(follow).observe(area);

  function select(line, column) {
    const lines = area.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    area.focus();
    area.setSelectionRange(start + Math.max(0, (column ?? 1) - 1), start + (lines[line - 1]?.length ?? 0));
    area.scrollTop = Math.max(0, (line - 4) * (area.scrollHeight / Math.max(1, lines.length)));
  }

  return {
    element, area, select,
    set(text) {
      area.value = text;
      marked = new Map();
      draw();
    },
    mark(errors) {
      marked = new Map(errors.map(({ line, message }) => [line, message]));
      draw();
      if (errors.length) select(errors[0].line, 1);
    },
  };
}
