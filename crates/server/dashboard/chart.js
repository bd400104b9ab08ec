// A chart over time, drawn by uPlot (in `vendor`). All charts of the page share one range, one zoom and one cursor. By
// keyboard and to a screen reader a chart is a slider over time; its figures stand beside it as text.

/* global uPlot */
import { el, setAttribute, setHidden, setText } from "./element.js";
import { clock, moment } from "./words.js";
import { past, spanMs, zoomTo } from "./past.js";

const charts = new Set();
/** As far as one press of a key goes, in steps. */
const KEYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -60, PageUp: 60 };
const COLOURS_MAX = 9;

/** What a variable of the sheet is painted as; the sheet's `light-dark()` is resolved by the browser. */
function painted(parent, name) {
  const probe = el("i", { className: `ink-${name}`, hidden: true });
  parent.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

const faint = (colour, part) => colour.replace(/^rgb\((.*)\)$/, `rgba($1, ${part})`);

/** `name` of the n-th line of a chart whose lines aren't known before. */
export const inkOf = (index) => `line-${index % COLOURS_MAX}`;

/**
 * `series`: `[{ label, ink, fill, of(step) }]`; what `of` returns is drawn, `null` where nothing is known. `words(value)`
 * is how it is told; the scale reaches `least`. Returns `{ element, draw(), setSeries(series) }`; nothing is drawn while it can't be seen.
 */
export function chart({ title, note, height = 180, least = 4, series, words, controls }) {
  const id = `h-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const legend = el("div", { className: "legend" });
  const readout = el("p", { className: "readout" }, "\u00a0");
  const holder = el("div", { className: "chart" });
  const slider = el("div", { className: "slider", tabIndex: 0, role: "slider", "aria-labelledby": id, "aria-valuemin": "0", "aria-valuemax": "0", "aria-valuenow": "0", "aria-valuetext": "nothing yet" }, holder);
  const none = el("p", { className: "nothing" }, "Nothing in this range yet.");
  const head = el("div", { className: "head" }, el("h2", { id }, title), ...(controls ? [controls] : []), legend);
  const element = el("section", { className: "card chart-card", "aria-labelledby": id }, head, ...(note ? [el("p", { className: "note" }, note)] : []), readout, el("div", { className: "chart-frame" }, slider, none));
  holder.style.height = `${height}px`;

  let lines = series;
  let hidden = new Set();
  let plot = null;
  let frame = 0;
  let steps = [];
  /** Which step is looked at; `null`: the newest. */
  let at = null;
  let isKeyed = false;

  function make() {
    plot?.destroy();
    plot = null;
    const width = Math.floor(holder.clientWidth);
    if (!width) return;
    const [soft, line] = [painted(element, "soft"), painted(element, "rule")];
    const font = "11.5px system-ui, sans-serif";
    const axis = { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
    const options = {
      width, height, legend: { show: false }, padding: [8, 10, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { sync: { key: "tidegate" }, drag: { x: true, y: false, setScale: false }, points: { size: 7 }, y: false },
      scales: {
        x: { time: true, range: () => shownSpan().map((ms) => ms / 1000) },
        y: { distr: past.isLog ? 4 : 1, asinh: 1, range: (_, __, max) => [0, max > 0 ? Math.max(max * 1.06, least) : least || 4] },
      },
      axes: [
        { ...axis, size: 26, space: 70, values: (_, ticks, ___, ____, step) => ticks.map((tick) => (step < 60 ? clock(tick * 1000) : clock(tick * 1000).slice(0, 5))) },
        { ...axis, grid: { ...axis.grid, filter: shownTicks }, ticks: { ...axis.ticks, filter: shownTicks }, filter: shownTicks, size: (self, values) => labelRoom(self, values, font), values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : words(tick).replace(/\.0(?!\d)/, ""))), space: 34 },
      ],
      series: [{}, ...lines.map(({ label, ink, fill, spans }) => {
        const colour = painted(element, ink);
        return { label, stroke: colour, width: 1.5, fill: fill ? faint(colour, 0.22) : undefined, show: !hidden.has(label), spanGaps: spans, points: { show: false } };
      })],
      hooks: { setSelect: [chosen], setCursor: [pointed], draw: [drawAway] },
    };
    plot = new uPlot(options, data(), holder);
    // A double click leaves the zoom, of all charts.
    plot.over.addEventListener("dblclick", () => zoomTo(null));
  }

  const shownSpan = () => {
    if (past.zoom) return past.zoom;
    const end = past.endMs();
    return [end - spanMs(), end];
  };

  function data() {
    const [from, until] = shownSpan();
    steps = past.steps().filter(({ at_ms: ms }) => ms >= from - past.stepMs && ms <= until + past.stepMs);
    // Where the node was stopped for a while, lines end and begin again.
    const gaps = steps.flatMap((step, index) => (index && step.at_ms - steps[index - 1].at_ms > 3 * past.stepMs ? [{ at_ms: steps[index - 1].at_ms + past.stepMs, isGap: true }, step] : [step]));
    steps = gaps;
    return [gaps.map(({ at_ms: ms }) => ms / 1000), ...lines.map(({ of }) => gaps.map((step) => (step.isGap ? null : of(step))))];
  }

  function chosen(self) {
    const { left, width } = self.select;
    if (width < 6) return;
    const [from, until] = [left, left + width].map((place) => 1000 * self.posToVal(place, "x"));
    self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    zoomTo([from, until]);
  }

  function pointed(self) {
    at = self.cursor.idx ?? null;
    tell();
  }

  /** A strip on the base line, while a shard of the store was away. */
  function drawAway(self) {
    const { ctx, bbox } = self;
    const away = steps.filter((step) => step.open_breakers);
    if (!away.length) return;
    ctx.save();
    ctx.fillStyle = painted(element, "bad");
    for (const { at_ms: ms } of away) {
      const [left, right] = [ms - past.stepMs, ms].map((edge) => self.valToPos(edge / 1000, "x", true));
      const begin = Math.max(left, bbox.left);
      if (right > begin) ctx.fillRect(begin, bbox.top + bbox.height - 4 * devicePixelRatio, Math.min(right, bbox.left + bbox.width) - begin, 4 * devicePixelRatio);
    }
    ctx.restore();
  }

  function tell() {
    const step = at === null ? steps.at(-1) : steps[at];
    if (!step || step.isGap) return setText(readout, "\u00a0");
    const shown = lines.filter(({ label }) => !hidden.has(label)).map((line) => [line.label, line.of(step)]).filter(([, value]) => value !== null && value !== undefined);
    const when = past.range === "15m" ? clock(step.at_ms) : moment(step.at_ms);
    const told = `${when} UTC  ${shown.map(([label, value]) => `${label} ${words(value)}`).join(", ") || "nothing"}${step.open_breakers ? ", store away" : ""}`;
    setText(readout, told);
    setAttribute(slider, "aria-valuemax", steps.length - 1);
    setAttribute(slider, "aria-valuenow", at ?? steps.length - 1);
    setAttribute(slider, "aria-valuetext", told);
  }

  function move(index) {
    if (!plot) return;
    isKeyed = index !== null;
    const wanted = index === null ? null : Math.min(Math.max(index, 0), steps.length - 1);
    plot.setCursor(wanted === null ? { left: -10, top: -10 } : { left: plot.valToPos(plot.data[0][wanted], "x"), top: 20 });
  }

  /** Half, or twice, of what is shown, around what is looked at. */
  function scaleBy(factor) {
    const [from, until] = shownSpan();
    const middle = at === null ? (from + until) / 2 : steps[at].at_ms;
    const reach = Math.max(((until - from) * factor) / 2, 5 * past.stepMs);
    zoomTo(2 * reach >= spanMs() ? null : [middle - reach, middle + reach]);
  }

  slider.addEventListener("blur", () => isKeyed && move(null));
  slider.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in KEYS) move((at ?? steps.length - 1) + KEYS[event.key]);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(null);
    else if (event.key === "Escape") past.zoom ? zoomTo(null) : move(null);
    else if (event.key === "+" || event.key === "=") scaleBy(0.5);
    else if (event.key === "-") scaleBy(2);
    else return;
    event.preventDefault();
  });

  function makeLegend() {
    legend.replaceChildren(...lines.map(({ label, ink, title: more }) => {
      const button = el("button", { type: "button", className: "key", "aria-pressed": String(!hidden.has(label)), title: more ?? label }, el("i", { className: `swatch ink-${ink}`, "aria-hidden": "true" }), el("span", {}, label));
      button.addEventListener("click", () => {
        if (!hidden.delete(label)) hidden.add(label);
        setAttribute(button, "aria-pressed", String(!hidden.has(label)));
        plot?.setSeries(1 + lines.findIndex((line) => line.label === label), { show: !hidden.has(label) });
        tell();
      });
      return button;
    }));
  }

  /** Once for each picture of the screen, however often it is asked for. */
  function draw() {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      paint();
    });
  }

  function paint() {
    // A view that isn't shown has no width.
    if (!element.isConnected || !holder.clientWidth) return;
    if (!plot) make();
    else if (plot.width !== Math.floor(holder.clientWidth)) plot.setSize({ width: Math.floor(holder.clientWidth), height });
    const columns = data();
    plot?.setData(columns);
    // The cursor stays where it is; what is below it has moved.
    if (plot) at = plot.cursor.idx ?? null;
    setHidden(none, lines.length > 0 && columns.slice(1).some((column) => column.some((value) => value !== null && value !== undefined)));
    tell();
  }

  function setSeries(wanted) {
    const names = (list) => list.map(({ label, ink }) => `${label} ${ink}`).join("\n");
    const isSame = names(wanted) === names(lines);
    lines = wanted;
    if (isSame) return;
    hidden = new Set([...hidden].filter((label) => lines.some((line) => line.label === label)));
    at = null;
    makeLegend();
    if (plot) make();
  }

  makeLegend();
  new ResizeObserver(() => draw()).observe(holder);
  const handle = { element, draw, setSeries, remake: () => plot && (make(), paint()) };
  charts.add(handle);
  return handle;
}

/** Of a logarithmic axis the powers of ten, and 0 where they leave room for it. */
function shownTicks(_, ticks) {
  if (!past.isLog) return ticks;
  const isCrowded = Math.max(...ticks) >= 1000;
  return ticks.map((tick) => (tick === 0 || (tick > 0 && Number.isInteger(Math.log10(tick)) && !(isCrowded && tick === 1)) ? tick : null));
}

const measuring = document.createElement("canvas").getContext("2d");

function labelRoom(_, values, font) {
  measuring.font = font;
  const widest = Math.max(0, ...(values ?? []).map((value) => measuring.measureText(value ?? "").width));
  return Math.max(40, Math.ceil(widest) + 14);
}

/** After the theme, the range or the kind of scale changed. */
export function remakeCharts() {
  for (const handle of charts) handle.remake();
}

export function drawCharts() {
  for (const handle of charts) handle.draw();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", remakeCharts);
