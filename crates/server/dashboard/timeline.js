// Denials over time as bars, drawn by uPlot, and what was wrong with the node's surroundings at the time. A picture
// beside the list: the list has it all in words.

/* global uPlot */
import { el } from "./element.js";
import { clock, count, eventWords, moment, plural } from "./words.js";

const BARS = 60;
const HEIGHT = 120;

/** What was wrong, or had changed, as the decisions saw it: each with when it began and until when it was seen. */
export function eventsOf(decisions) {
  const events = new Map();
  for (const decision of decisions) {
    const at = Date.parse(decision.last ?? decision.at);
    for (const [kind, list] of [["unwell", decision.unwell], ["changed", decision.changed_before]]) {
      for (const { since, what, subject = "", text = "" } of list) {
        const name = `${kind} ${what} ${subject} ${since}`;
        const known = events.get(name);
        if (known) known.until = Math.max(known.until, at);
        else events.set(name, { kind, what, subject, text, since: Date.parse(since), until: at });
      }
    }
  }
  return [...events.values()].sort((a, b) => a.since - b.since);
}

/** From when to when decisions were made, never less than two seconds. */
export function spanOf(decisions) {
  const ends = decisions.flatMap(({ at, last }) => [Date.parse(at), Date.parse(last ?? at)]);
  const [first, last] = [Math.min(...ends), Math.max(...ends)];
  const margin = Math.max((last - first) * 0.03, 1000);
  return [first - margin, last + margin];
}

/** How many decisions fell into each of `bars` equal parts of a span; those told as one are spread over their time. */
export function countsOver(decisions, [from, until], bars) {
  const counts = new Array(bars).fill(0);
  const place = (at) => Math.min(bars - 1, Math.max(0, Math.floor(((at - from) / (until - from)) * bars)));
  for (const { at, last, more = 0 } of decisions) {
    const [begin, end] = [place(Date.parse(at)), place(Date.parse(last ?? at))];
    for (let bar = begin; bar <= end; bar += 1) counts[bar] += (1 + more) / (end - begin + 1);
  }
  return counts;
}

const inkOf = (parent, name) => {
  const probe = el("i", { className: `ink-${name}`, hidden: true });
  parent.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
};

export function timeline(decisions) {
  const denials = decisions.filter(({ outcome }) => outcome !== "admitted");
  const [from, until] = spanOf(decisions);
  const events = eventsOf(decisions);
  const sum = denials.reduce((total, { more = 0 }) => total + 1 + more, 0);
  const told = events.map(({ kind, what, subject, since }) => `${eventWords(what)}${subject ? ` (${subject})` : ""} ${kind === "unwell" ? "since" : "at"} ${clock(since)}`);
  const figure = el("div", { className: "timeline", role: "img", "aria-label": `${plural(sum, "denial")} from ${moment(from)} to ${moment(until)} UTC. ${told.join("; ")}` });
  const counts = countsOver(denials, [from, until], BARS);
  const width = (until - from) / BARS;
  const times = counts.map((_, index) => (from + (index + 0.5) * width) / 1000);
  let plot = null;

  function make(wide) {
    plot?.destroy();
    const [soft, line, denied, bad, warn] = ["soft", "rule", "denied", "bad", "warn"].map((name) => inkOf(figure, name));
    const axis = { stroke: soft, font: "11.5px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
    const marks = (self) => {
      const { ctx, bbox } = self;
      const x = (at) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, self.valToPos(at / 1000, "x", true)));
      ctx.save();
      for (const { kind, since, until: seen } of events) {
        ctx.fillStyle = kind === "unwell" ? bad : warn;
        const breadth = kind === "unwell" ? Math.max(2, x(seen) - x(since)) : 2;
        if (kind === "unwell") ctx.fillRect(x(since), bbox.top + bbox.height - 4 * devicePixelRatio, breadth, 4 * devicePixelRatio);
        else if (since >= from) ctx.fillRect(x(since), bbox.top, breadth, bbox.height);
      }
      ctx.restore();
    };
    plot = new uPlot({
      width: wide, height: HEIGHT, legend: { show: false }, cursor: { show: false }, padding: [8, 10, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { range: () => [from / 1000, until / 1000] }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
      axes: [
        { ...axis, size: 26, space: 80, values: (_, ticks) => ticks.map((tick) => clock(tick * 1000)) },
        { ...axis, size: 46, space: 30, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? count(tick) : "")) },
      ],
      series: [{}, { stroke: denied, fill: denied, width: 0, paths: uPlot.paths.bars({ size: [0.8, 40] }), points: { show: false } }],
      hooks: { draw: [marks] },
    }, [times, counts], figure);
  }

  let wide = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (!now || now === wide) return;
    wide = now;
    make(wide);
  }).observe(figure);
  return figure;
}
