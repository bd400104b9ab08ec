// Numbers and times as people read them. All times are UTC, as in the sentences of `why`.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => (number === undefined ? "–" : number < 1e6 ? whole.format(number) : short.format(number));

/** A rate: a tenth where that says something. */
export function rate(perSecond) {
  if (perSecond === 0) return "0";
  if (perSecond < 100) return tenth.format(perSecond);
  return count(perSecond);
}

export function share(part, of) {
  if (of === 0) return "0 %";
  const percent = (100 * part) / of;
  return `${percent > 0 && percent < 10 ? tenth.format(percent) : whole.format(percent)} %`;
}

/** Of microseconds. */
export function duration(micros) {
  if (micros < 1000) return `${micros < 10 && micros > 0 ? tenth.format(micros) : whole.format(micros)} µs`;
  if (micros < 1e6) return `${micros < 1e4 ? tenth.format(micros / 1000) : whole.format(micros / 1000)} ms`;
  return `${tenth.format(micros / 1e6)} s`;
}

export function ago(milliseconds) {
  if (milliseconds < 1000) return `${whole.format(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${tenth.format(milliseconds / 1000)} s`;
  if (milliseconds < 3_600_000) return `${whole.format(milliseconds / 60_000)} min`;
  if (milliseconds < 172_800_000) return `${whole.format(milliseconds / 3_600_000)} h`;
  return `${whole.format(milliseconds / 86_400_000)} days`;
}

/** `14:03:07` */
export const clock = (milliseconds) => new Date(milliseconds).toISOString().slice(11, 19);

/** `2026-11-16 14:03:07` */
export const moment = (milliseconds) => new Date(milliseconds).toISOString().slice(0, 19).replace("T", " ");

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** What to say of a cause, and what to do about it. */
export const CAUSES = {
  admitted: ["passed", ""],
  limit_used: ["the limit was in use", "Wait until it would pass, or raise the limit."],
  rule_changed: ["it would have passed before the rule was changed", "See what changed below, and the history under Rules."],
  clock_step: ["the clock had just been set", "Look at the machine's time: a step never refills a limit."],
  store_away: ["the region's store couldn't be reached", "See what was wrong then, and the store under Tiers."],
  unverified: ["it couldn't be checked", "No answer in time, or no room in the counter table: memory.max_keys."],
  regions_part: ["this region's part of the limit was in use", "Wait: parts follow demand within seconds."],
  blocked: ["the limit is 0", "An override blocks this caller."],
  cost_above_limit: ["it costs more than the limit ever allows", "A smaller request, or a larger limit."],
  attribute_missing: ["it lacked an attribute that the rule requires", "Send the attribute."],
};

export const causeWords = (cause) => CAUSES[cause]?.[0] ?? cause.replaceAll("_", " ");

const PATHS = { missing: "attribute missing", cold: "cold (asked)", stale: "stale (asked)", strict: "strict (asked)", credit: "credit (asked)", exact: "exact (asked)", quota: "region's part" };

export const pathWords = (path) => PATHS[path] ?? path;

export const causeOfAsk = (reason) => reason.replaceAll("_", " ");

const EVENTS = {
  started: "node started",
  breaker: "store away",
  sync_lag: "behind its region",
  import_lag: "behind other regions",
  rules: "rule changed",
  live_nodes: "live nodes changed",
  slices: "parts of limits",
  clock_step: "clock was set",
};

export const eventWords = (what) => EVENTS[what] ?? what.replaceAll("_", " ");

/** Names of counters: `requests_admitted` as `requests admitted`. */
export const plain = (name) => name.replaceAll("_", " ");
