// Decisions and denials over time, as SVG: two areas on one base line, and a strip below for a store that was away.
// It is drawn into the same few elements each second. By keyboard and to a screen reader it is a slider over time.

import { el, setAttribute, setText, svg } from "./element.js";
import { clock, count, plural } from "./words.js";

const SPAN_MS = 900_000;
const HEIGHT = 220;
const LEFT = 44;
const RIGHT = 8;
const TOP = 10;
const BASE = 184;
const LABELS = [15, 10, 5, 0];

/** The next round number, whose half is round too. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

export function chart(parent, readout) {
  const grid = [0, 0.5, 1].map((part) => ({ part, line: svg("line", { class: "grid" }), label: svg("text", { class: "axis", "text-anchor": "end" }) }));
  const ticks = LABELS.map((minutes) => svg("text", { class: "axis", "text-anchor": minutes ? "middle" : "end", y: HEIGHT - 6 }));
  const admitted = svg("path", { class: "area admitted" });
  const total = svg("path", { class: "line admitted" });
  const denied = svg("path", { class: "area denied" });
  const deniedLine = svg("path", { class: "line denied" });
  const away = svg("path", { class: "away" });
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: BASE, visibility: "hidden" });
  const drawing = svg("svg", { "aria-hidden": "true", height: HEIGHT, width: "100%" },
    ...grid.flatMap(({ line, label }) => [line, label]), admitted, denied, total, deniedLine, away, cursor, ...ticks);
  const slider = el("div", { className: "slider", tabIndex: 0, role: "slider", "aria-label": "Decisions and denials: moment shown, in seconds before now", "aria-valuemin": "-899", "aria-valuemax": "0", "aria-valuenow": "0", "aria-valuetext": "no request yet" }, drawing);
  parent.replaceChildren(slider);

  let width = 0;
  let shown = { seconds: [], now: 0 };
  /** Seconds before now that somebody looks at; `null`: the newest. */
  let back = null;

  const x = (at) => LEFT + (width - LEFT - RIGHT) * Math.max(0, 1 - (shown.now - at) / SPAN_MS);

  function draw({ seconds, nowMs }) {
    if (!width) return;
    shown = { seconds, now: seconds.at(-1)?.[0] ?? nowMs };
    const visible = seconds.filter(([at]) => at >= shown.now - SPAN_MS);
    const highest = roundUp(visible.reduce((most, [, a, d]) => Math.max(most, a + d), 4));
    const y = (value) => BASE - ((BASE - TOP) * value) / highest;
    const outline = (of) => visible.map((second, index) => `${index ? "L" : "M"}${x(second[0]).toFixed(1)} ${y(of(second)).toFixed(1)}`).join("");
    const closed = (path) => (visible.length ? `${path}L${x(visible.at(-1)[0]).toFixed(1)} ${BASE}L${x(visible[0][0]).toFixed(1)} ${BASE}Z` : "");
    const [all, below] = [outline(([, a, d]) => a + d), outline(([, , d]) => d)];
    const hasDenials = visible.some(([, , d]) => d > 0);
    setAttribute(admitted, "d", closed(all));
    setAttribute(total, "d", all);
    setAttribute(denied, "d", hasDenials ? closed(below) : "");
    setAttribute(deniedLine, "d", hasDenials ? below : "");
    const one = (width - LEFT - RIGHT) / 900;
    setAttribute(away, "d", visible.filter((second) => second[3] > 0).map(([at]) => `M${(x(at) - one).toFixed(1)} ${BASE + 5}h${(one + 0.2).toFixed(1)}`).join(""));
    for (const { part, line, label } of grid) {
      const at = y(highest * part);
      for (const [name, value] of [["x1", LEFT], ["x2", width - RIGHT], ["y1", at], ["y2", at]]) setAttribute(line, name, value);
      setAttribute(label, "x", LEFT - 8);
      setAttribute(label, "y", at + 4);
      setText(label, count(highest * part));
    }
    ticks.forEach((label, index) => {
      const minutes = LABELS[index];
      setAttribute(label, "x", minutes ? Math.max(LEFT + 18, x(shown.now - minutes * 60_000)) : width - RIGHT);
      setText(label, minutes ? `−${minutes} min` : "now");
    });
    tell();
  }

  function tell() {
    const { seconds, now } = shown;
    const at = back === null ? seconds.at(-1) : nearest(seconds, now - back * 1000);
    setAttribute(cursor, "visibility", at && back !== null ? "visible" : "hidden");
    if (!at) {
      setText(readout, "No second was noted yet.");
      return;
    }
    const [when, a, d, open] = at;
    setAttribute(cursor, "x1", x(when));
    setAttribute(cursor, "x2", x(when));
    const words = `${clock(when)} UTC  ${count(a)} admitted, ${count(d)} denied${open ? `, ${plural(open, "shard")} away` : ""}`;
    setText(readout, words);
    setAttribute(slider, "aria-valuenow", -Math.round((now - when) / 1000));
    setAttribute(slider, "aria-valuetext", words);
  }

  function move(seconds) {
    back = seconds === null || seconds < 0 ? null : Math.min(seconds, 899);
    tell();
  }

  slider.addEventListener("pointermove", (event) => {
    const part = 1 - (event.offsetX - LEFT) / (width - LEFT - RIGHT);
    move(Math.round(Math.min(1, Math.max(0, part)) * 900));
  });
  slider.addEventListener("pointerleave", () => move(null));
  slider.addEventListener("blur", () => move(null));
  slider.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: 1, ArrowDown: 1, ArrowRight: -1, ArrowUp: -1, PageDown: 60, PageUp: -60 };
    if (event.key in steps) move((back ?? 0) + steps[event.key]);
    else if (event.key === "Home") move(899);
    else if (event.key === "End" || event.key === "Escape") move(null);
    else return;
    event.preventDefault();
  });
  new ResizeObserver(([entry]) => {
    width = Math.round(entry.contentRect.width);
    draw({ seconds: shown.seconds, nowMs: shown.now });
  }).observe(slider);
  return draw;
}

function nearest(seconds, at) {
  let best = seconds[0];
  for (const second of seconds) if (Math.abs(second[0] - at) < Math.abs(best[0] - at)) best = second;
  return best;
}
