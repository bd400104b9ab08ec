// What the node remembers of its past: steps of the chosen range, asked for as they come, and the zoom into them.
// Bounded: as many steps as the node keeps of a range.

import { ask, AskError } from "./ask.js";

export const RANGES = { "15m": ["15 min", 900_000], "1h": ["1 h", 3_600_000], "6h": ["6 h", 21_600_000], "24h": ["24 h", 86_400_000] };
const STEPS_MAX = 900;
const RANGE = "tidegate-range";
const LOG = "tidegate-log-scale";

const kept = (name) => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
};
const keep = (name, value) => {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Then it lasts as long as the page.
  }
};

let done = [];
let filling = null;
let node = "";
let turn = 0;
const listeners = new Set();

export const past = {
  range: kept(RANGE) in RANGES ? kept(RANGE) : "15m",
  stepMs: 1000,
  isLog: kept(LOG) === "yes",
  /** `[from, until]` in milliseconds, or `null`. */
  zoom: null,
  nowMs: 0,
  /** Rules by their ids in steps. */
  rules: new Map(),
  steps: () => (filling && past.stepMs > 1000 ? [...done, filling] : done),
  endMs: () => filling?.at_ms ?? done.at(-1)?.at_ms ?? past.nowMs,
  /** How many steps are held. */
  held: () => done.length,
};

export const spanMs = () => RANGES[past.range][1];

/** Called when the range, the zoom or the scale was changed by somebody. */
export const onPast = (listener) => listeners.add(listener);
const tell = (what) => listeners.forEach((listener) => listener(what));

export function forgetPast() {
  Object.assign(past, { zoom: null, nowMs: 0 });
  past.rules.clear();
  [done, filling, turn] = [[], null, turn + 1];
}

export async function setRange(range) {
  past.range = range;
  keep(RANGE, range);
  forgetPast();
  await lookBack(node).catch(() => {});
  tell("range");
}

export function setLog(isLog) {
  past.isLog = isLog;
  keep(LOG, isLog ? "yes" : "no");
  tell("scale");
}

export function zoomTo(zoom) {
  past.zoom = zoom;
  tell("zoom");
}

/** Asks for what came since the last look. It is about all tenants: others than operators see nothing. */
export async function lookBack(of) {
  // Another process has another past.
  if (node !== of) forgetPast();
  node = of;
  const own = turn;
  const last = done.at(-1)?.at_ms;
  let answer;
  try {
    answer = await ask(`/v1/history?range=${past.range}${last ? `&after_ms=${last}` : ""}`);
  } catch (error) {
    if (error instanceof AskError && error.status === 403) return;
    throw error;
  }
  // Another range was chosen meanwhile.
  if (own !== turn) return;
  past.nowMs = answer.now_ms;
  past.stepMs = answer.step_ms;
  // A clock that was set back: the node forgot what lies in the future, and so does the page.
  while (done.length && done.at(-1).at_ms > answer.now_ms) done.pop();
  done.push(...answer.steps);
  if (done.length > STEPS_MAX) done.splice(0, done.length - STEPS_MAX);
  filling = answer.filling ?? null;
  for (const { id, ...labels } of answer.rules) past.rules.set(id, labels);
}
