// Decisions and what was unwell, on one axis of time. A picture beside the list: the list has it all in words.

import { el, svg } from "./element.js";
import { causeWords, clock, eventWords, moment, plural } from "./words.js";

const LANE = 26;
const LEFT = 8;
const TOP = 8;
/** So many kinds of events at most; the list has the rest. */
const LANES_MAX = 8;

/** What was unwell, or had changed, as the decisions saw it: each with when it began and until when it was seen. */
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

function lanesOf(events) {
  const lanes = new Map();
  for (const event of events) {
    const name = `${eventWords(event.what)}${event.subject ? `: ${event.subject}` : ""}`;
    if (!lanes.has(name)) lanes.set(name, []);
    lanes.get(name).push(event);
  }
  return [...lanes].slice(0, LANES_MAX);
}

/** From when to when: all decisions, with a margin; events that began long before are cut at the edge. */
function spanOf(decisions, events) {
  const ends = decisions.flatMap(({ at, last }) => [Date.parse(at), Date.parse(last ?? at)]);
  const [first, last] = [Math.min(...ends), Math.max(...ends)];
  const reach = Math.max(2 * (last - first), 60_000);
  const from = Math.min(first, ...events.map(({ since }) => since).filter((since) => since >= first - reach));
  const margin = Math.max((last - from) * 0.06, 2000);
  return [from - margin, last + margin];
}

export function timeline(decisions) {
  const events = eventsOf(decisions);
  const lanes = lanesOf(events);
  const [from, until] = spanOf(decisions, events);
  const denials = decisions.filter(({ outcome }) => outcome !== "admitted");
  const height = TOP + (lanes.length + 1) * LANE + 24;
  const drawing = svg("svg", { "aria-hidden": "true", width: "100%", height });
  const words = `${plural(denials.length, "denial")} from ${moment(from)} to ${moment(until)} UTC. ${lanes.map(([name, list]) => `${name} since ${clock(list[0].since)}`).join("; ")}`;
  const figure = el("div", { className: "timeline", role: "img", "aria-label": words }, drawing);
  const draw = (width) => drawing.replaceChildren(...shapes({ decisions, lanes, from, until, width, height }));
  new ResizeObserver(([entry]) => draw(Math.round(entry.contentRect.width))).observe(figure);
  return figure;
}

function shapes({ decisions, lanes, from, until, width, height }) {
  const x = (at) => LEFT + ((width - 2 * LEFT) * Math.max(0, at - from)) / (until - from);
  const bottom = height - 20;
  const made = [];
  for (let step = 0; step <= 3; step += 1) {
    const at = from + ((until - from) * step) / 3;
    if (width < 560 && (step === 1 || step === 2)) continue;
    made.push(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: bottom }));
    const anchor = step === 0 ? "start" : step === 3 ? "end" : "middle";
    const label = svg("text", { class: "axis", x: x(at), y: height - 4, "text-anchor": anchor });
    label.textContent = clock(at);
    made.push(label);
  }
  lanes.forEach(([name, list], lane) => {
    const y = TOP + (lane + 1) * LANE;
    for (const { kind, since, until: seen } of list) {
      if (kind === "unwell") made.push(svg("rect", { class: "unwell", x: x(since), y: y + 3, width: Math.max(4, x(seen) - x(since)), height: 8, rx: 2 }));
      else made.push(svg("line", { class: "changed", x1: x(since), x2: x(since), y1: TOP, y2: bottom }), svg("path", { class: "changed", d: `M${x(since)} ${y + 2}l5 5l-5 5l-5-5z` }));
    }
    made.push(title(name, y + 22));
  });
  made.push(title("denied", TOP + 21));
  for (const { at, last, outcome, cause } of decisions) {
    const [begin, end] = [x(Date.parse(at)), x(Date.parse(last ?? at))];
    const name = outcome === "admitted" ? "passed" : "denial";
    if (end - begin > 6) made.push(svg("line", { class: name, x1: begin, x2: end, y1: TOP + 6, y2: TOP + 6 }));
    const dot = svg("circle", { class: name, cx: begin, cy: TOP + 6, r: 4.5 });
    const hint = svg("title");
    hint.textContent = `${clock(Date.parse(at))} ${causeWords(cause)}`;
    dot.append(hint);
    made.push(dot);
  }
  return made;
}

function title(words, y) {
  const text = svg("text", { class: "axis", x: LEFT, y });
  text.textContent = words;
  return text;
}
