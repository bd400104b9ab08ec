// What the page knows of its node, asked for anew each second. One place keeps it, and all of it has a bound.
// While nobody looks, or nobody answers, it asks less often.

import { ask, AskError } from "./ask.js";
import { forgetPast, lookBack } from "./past.js";

const EVERY_MS = 1000;
const HIDDEN_EVERY_MS = 15_000;
const FAILING_EVERY_MS_MAX = 10_000;
/** Looks that rates are averaged over. */
const TOTALS_MAX = 11;
/** Failures in a row until the connection counts as lost. */
const LOST_AFTER = 2;

/** What views show; they never change it. */
export const live = {
  /** `wait`, `live`, `lost` or `token`. */
  connection: "wait",
  problem: "",
  state: null,
  top: null,
  rules: null,
  /** `[at_ms, admitted, denied]` since the node started, of the latest looks. */
  totals: [],
  failures: 0,
  ticks: 0,
};

const listeners = new Set();
let timer = 0;
let asking = null;

export const onTick = (listener) => listeners.add(listener);

/** Asks once, then tells all views; whoever comes meanwhile waits for the same answer. */
export function tick() {
  asking ??= askOnce().finally(() => (asking = null));
  return asking;
}

async function askOnce() {
  try {
    await look();
    Object.assign(live, { connection: "live", problem: "", failures: 0 });
  } catch (error) {
    failed(error);
  }
  live.ticks += 1;
  for (const listener of listeners) listener(live);
}

async function look() {
  const [state, top] = await Promise.all([ask("/v1/state"), ask("/v1/top")]);
  await lookBack(state.node ?? "");
  if (!live.rules || live.rules.rule_version !== state.rule_version) live.rules = await ask("/v1/rules");
  // Another process counts from the beginning.
  if (live.state && live.state.node !== state.node) live.totals = [];
  live.state = state;
  live.top = top;
  if (!state.stats) return;
  live.totals.push([performance.now(), state.stats.requests_admitted, state.stats.requests_denied]);
  if (live.totals.length > TOTALS_MAX) live.totals.shift();
}

/** `[admitted, denied]` a second, of late; `null` while that isn't known. */
export function recentRates() {
  const [first, last] = [live.totals[0], live.totals.at(-1)];
  if (!first || first === last) return null;
  const seconds = (last[0] - first[0]) / 1000;
  return [1, 2].map((place) => Math.max(0, last[place] - first[place]) / seconds);
}

function failed(error) {
  live.failures += 1;
  if (error instanceof AskError && error.status === 401) {
    Object.assign(live, { connection: "token", problem: error.message });
  } else if (live.failures >= LOST_AFTER || live.connection === "wait") {
    live.connection = "lost";
    live.problem = error instanceof AskError ? `${error.message}; ${error.fix}` : "nobody answers at this address";
  }
}

function pause() {
  if (live.connection === "token") return null;
  const failing = live.failures ? Math.min(EVERY_MS * 2 ** (live.failures - 1), FAILING_EVERY_MS_MAX) : EVERY_MS;
  return document.hidden ? Math.max(HIDDEN_EVERY_MS, failing) : failing;
}

async function go() {
  clearTimeout(timer);
  const started = performance.now();
  await tick();
  const wait = pause();
  clearTimeout(timer);
  // Without a token there is nothing to ask; whoever gives one starts it again.
  if (wait !== null) timer = setTimeout(go, Math.max(50, wait - (performance.now() - started)));
}

/** Starts asking, or asks at once. */
export const start = () => void go();

/** Forgets everything: another token may see other things. */
export function forget() {
  forgetPast();
  Object.assign(live, { connection: "wait", state: null, top: null, rules: null, totals: [], failures: 0 });
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) start();
});
