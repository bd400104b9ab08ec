// All charts of a node: what it decided by rule and by path, how long that took, and what it asked the region's store.

import { byId, el, setHidden, setText } from "./element.js";
import { RANGES, onPast, past, setLog, setRange, zoomTo } from "./past.js";
import { chart, drawCharts, inkOf, remakeCharts } from "./chart.js";
import { causeOfAsk, clock, duration, moment, pathWords, rate, share } from "./words.js";

const SERIES_MAX = 8;
/** How many seconds of a step have gone by. */
const seconds = (step) => step.seconds ?? past.stepMs / 1000;
export const perSecond = (of) => (step) => (of(step) ?? 0) / seconds(step);
const PERCENTILES = ["p50", "p99", "p99.9"];

/** Which range is shown, how, and the way out of a zoom. All pickers of the page show the same. */
export function rangePicker(name) {
  const choices = Object.entries(RANGES).map(([range, [words]]) => {
    const radio = el("input", { type: "radio", name: `range-${name}`, value: range, className: "unseen" });
    radio.addEventListener("change", () => void setRange(range));
    return { range, radio, label: el("label", {}, radio, el("span", {}, words)) };
  });
  const log = el("button", { type: "button", className: "quiet", "aria-pressed": "false" }, "Log scale");
  log.addEventListener("click", () => setLog(!past.isLog));
  const out = el("button", { type: "button", className: "quiet", hidden: true }, "Reset zoom");
  out.addEventListener("click", () => zoomTo(null));
  const show = () => {
    for (const { range, radio } of choices) radio.checked = range === past.range;
    log.setAttribute("aria-pressed", String(past.isLog));
    setHidden(out, !past.zoom);
    if (past.zoom) setText(out, `Reset zoom (${past.zoom.map((ms) => (past.range === "24h" ? moment(ms).slice(5, 16) : clock(ms))).join(" – ")})`);
  };
  onPast(show);
  show();
  return el("div", { className: "picker" }, el("fieldset", { className: "choice" }, el("legend", { className: "unseen" }, "Range"), ...choices.map(({ label }) => label)), log, out);
}

onPast((what) => (what === "zoom" ? drawCharts() : remakeCharts()));

/** Admitted and denied, one above the other. */
export const decisionLines = [
  { label: "all", ink: "admitted", fill: true, of: perSecond(({ admitted = 0, denied = 0 }) => admitted + denied), title: "admitted and denied" },
  { label: "denied", ink: "denied", fill: true, of: perSecond(({ denied }) => denied) },
];

const percentileLines = (field) => PERCENTILES.map((label, index) => ({ label, ink: inkOf([0, 4, 1][index]), spans: true, of: (step) => step[field]?.[index] ?? null }));

/** The names that have most, in the order of the alphabet: a line keeps its colour while others come and go. */
function most(sums) {
  return [...sums].filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]).slice(0, SERIES_MAX).map(([name]) => name).sort();
}

function byName(field, columnsOf) {
  const sums = new Map();
  for (const step of past.steps())
    for (const [name, value] of Object.entries(step[field] ?? {})) sums.set(name, (sums.get(name) ?? 0) + columnsOf(value));
  return most(sums);
}

const OTHERS = "others";
const ruleName = (id) => {
  const labels = past.rules.get(id);
  if (!labels) return OTHERS;
  if (!labels.namespace) return labels.rule === "given" ? "limits in requests" : "other rules";
  return `${labels.rule} · ${labels.namespace}${labels.tenant === "default" ? "" : ` · ${labels.tenant}`}`;
};

/** `column`: 0 admitted, 1 denied, 2 would have been denied, `null` all that was decided. */
function ruleLines(column) {
  const amount = ([, admitted, denied, would]) => (column === null ? admitted + denied + would : [admitted, denied, would][column]);
  const sums = new Map();
  for (const step of past.steps()) for (const row of step.rules ?? []) sums.set(row[0], (sums.get(row[0]) ?? 0) + amount(row));
  const ids = most(sums).sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
  return ids.map((id, index) => ({ label: ruleName(id), ink: inkOf(id === null ? 8 : index), of: perSecond((step) => (step.rules ?? []).filter((row) => row[0] === id).reduce((sum, row) => sum + amount(row), 0)) }));
}

const RULE_CHOICES = [["all", "all decisions", null], ["admitted", "admitted", 0], ["denied", "denied", 1], ["would", "would be denied (shadow)", 2]];

export function charts() {
  const perRate = (value) => `${rate(value)}/s`;
  const choice = el("select", { "aria-label": "Which decisions of rules" }, ...RULE_CHOICES.map(([value, words]) => el("option", { value }, words)));
  const column = () => RULE_CHOICES.find(([value]) => value === choice.value)[2];
  const all = {
    decisions: chart({ title: "Decisions", series: decisionLines, words: perRate }),
    rules: chart({ title: "By rule", series: [], words: perRate, controls: choice }),
    paths: chart({ title: "By path", note: "Which part of a node decided: most are local, the others say why the region's store was asked, or what was done without it.", series: [], words: perRate }),
    latency: chart({ title: "Time to decide", least: 0, series: percentileLines("latency_us"), words: duration }),
    asks: chart({ title: "Asks of the store", note: "Limits that waited for the region's store before they were decided, by reason.", series: [], words: perRate }),
    store: chart({ title: "Answers of the store", note: "How long the region's store took to answer.", least: 0, series: percentileLines("store_us"), words: duration }),
    overshoot: chart({ title: "Overshoot", note: "By what part of their limit keys were beyond it when the store was asked about them.", least: 0.1, series: percentileLines("overshoot"), words: (value) => share(value, 1) }),
  };
  const shared = ["asks", "store", "overshoot"];
  const alone = el("p", { className: "note card" }, "This node counts alone, so it asks no store. With origin.url there are charts of asks, answers and overshoot here.");
  const refused = el("p", { className: "note card", hidden: true }, "The history of a node concerns all tenants: to see it, use a token of tenant default.");
  const grid = el("div", { className: "charts" }, ...Object.values(all).map(({ element }) => element), alone, refused);
  byId("charts").replaceChildren(grid);
  byId("charts-picker").replaceChildren(rangePicker("charts"));
  choice.addEventListener("change", () => {
    all.rules.setSeries(ruleLines(column()));
    all.rules.draw();
  });
  return {
    show({ state }) {
      if (!state) return;
      const isOperator = state.caller?.is_operator ?? true;
      setHidden(refused, isOperator);
      for (const [name, { element }] of Object.entries(all)) setHidden(element, !isOperator || (shared.includes(name) && !state.origin));
      setHidden(alone, !isOperator || Boolean(state.origin));
      all.rules.setSeries(ruleLines(column()));
      all.paths.setSeries(byName("paths", (outcomes) => outcomes.reduce((sum, count) => sum + count, 0)).map((path, index) => ({ label: pathWords(path), ink: inkOf(index), of: perSecond((step) => step.paths?.[path]?.reduce((sum, count) => sum + count, 0)) })));
      all.asks.setSeries(byName("asks", (count) => count).map((reason, index) => ({ label: causeOfAsk(reason), ink: inkOf(index), of: perSecond((step) => step.asks?.[reason]) })));
      for (const { draw } of Object.values(all)) draw();
    },
  };
}
