// The search in the decision log: what was asked is in the address, so that an answer can be sent to somebody.

import { ask, query } from "./ask.js";
import { byId, copyButton, each, el, emptyState, setHidden } from "./element.js";
import { causeWords, CAUSES, clock, count, eventWords, moment } from "./words.js";
import { countsOver, eventsOf, spanOf, timeline } from "./timeline.js";
import { tryThis } from "./callers.js";

const FIELDS = ["identifier", "rule", "namespace", "request_id", "when", "at"];
const WHEN_MS = { "15m": 900_000, "1h": 3_600_000, "24h": 86_400_000 };
const DECISIONS_MAX = 500;
/** Of one caller and rule, as many are listed. */
const LISTED_MAX = 30;
const BARS = 32;
/** What `why --at` takes: a minute before until two minutes after. */
const BEFORE_MS = 60_000;
const AFTER_MS = 120_000;

export function why() {
  const form = byId("why-form");
  const result = byId("why-result");
  let asked = null;
  /** Of the newest question: an older answer that comes late is left alone. */
  let turn = 0;

  byId("why-when").addEventListener("change", showAt);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(FIELDS.map((name) => [name, form.elements[name].value.trim()]));
    if (fields.when !== "at") fields.at = "";
    const wanted = `#/why${query({ ...fields, admissions: form.elements.admissions.checked ? "true" : "" })}`;
    if (wanted === location.hash) void find(new URLSearchParams(wanted.split("?")[1]));
    else location.hash = wanted;
  });

  function showAt() {
    setHidden(byId("why-at-label"), byId("why-when").value !== "at");
  }

  async function find(parameters) {
    turn += 1;
    const own = turn;
    for (const name of FIELDS) form.elements[name].value = parameters.get(name) ?? "";
    form.elements.admissions.checked = parameters.get("admissions") === "true";
    showAt();
    try {
      const answer = await ask(`/v1/why${query(question(parameters))}`);
      if (own === turn) result.replaceChildren(...shown(answer, parameters));
    } catch (error) {
      if (own === turn) result.replaceChildren(el("p", { className: "problem", role: "alert" }, `${error.message}. ${error.fix ?? ""}`));
    }
  }

  return {
    show(live, parameters) {
      fillNames(live.rules);
      const text = parameters.toString();
      if (asked === text || !live.state) return;
      asked = text;
      void find(parameters);
    },
    leave() {
      asked = null;
    },
  };
}

function question(parameters) {
  const fields = Object.fromEntries(["identifier", "rule", "namespace", "request_id", "admissions"].map((name) => [name, parameters.get(name)]));
  const when = parameters.get("when");
  const at = Date.parse(`${parameters.get("at") ?? ""}Z`);
  if (when === "at" && !Number.isNaN(at)) Object.assign(fields, { since_ms: at - BEFORE_MS, until_ms: at + AFTER_MS });
  else if (when in WHEN_MS) fields.since_ms = Date.now() - WHEN_MS[when];
  return { ...fields, limit: DECISIONS_MAX };
}

function fillNames(rules) {
  const namespaces = rules?.namespaces ?? [];
  const option = { key: (name) => name, make: (name) => el("option", { value: name }) };
  each(byId("namespace-names"), [...new Set(namespaces.map(({ namespace }) => namespace))], option);
  each(byId("rule-names"), [...new Set(namespaces.flatMap((one) => one.rules.map(({ name }) => name)))], option);
}

function shown({ decisions, counted, is_cut, damaged }, parameters) {
  if (!decisions.length && !counted.length) return [nothing(parameters)];
  const parts = [];
  if (decisions.length) {
    const heading = `${is_cut ? `The last ${decisions.length}` : count(decisions.length)} ${decisions.length === 1 ? "decision" : "decisions"}`;
    parts.push(el("section", { className: "card", "aria-labelledby": "h-timeline" }, el("div", { className: "head" }, el("h2", { id: "h-timeline" }, heading), el("p", { className: "legend" }, causes(decisions))), timeline(decisions)));
  }
  if (counted.length) parts.push(folded(counted));
  if (damaged) parts.push(el("p", { className: "problem warn" }, `${count(damaged)} damaged parts of the log were left out.`));
  const [newest] = decisions;
  if (newest) parts.push(newestCard(newest));
  const groups = groupsOf(decisions, parameters);
  if (decisions.length > 1) parts.push(el("section", { className: "card older", "aria-labelledby": "h-groups" }, el("h2", { id: "h-groups" }, "By caller and rule"), ...groups.map((group) => groupCard(group, spanOf(decisions)))));
  return parts;
}

/** Decisions of one caller by one rule, those with the most first. */
function groupsOf(decisions, parameters) {
  const groups = new Map();
  for (const decision of decisions) {
    const { tenant, namespace, rule, key, outcome } = decision;
    const name = JSON.stringify([tenant, namespace, rule, key, outcome]);
    const group = groups.get(name) ?? { caller: callerOf(decision, parameters), outcome, rule, namespace, sum: 0, list: [] };
    group.sum += 1 + (decision.more ?? 0);
    group.list.push(decision);
    groups.set(name, group);
  }
  return [...groups.values()].sort((a, b) => b.sum - a.sum);
}

/** The log has names only where operators chose so; otherwise the first digits tell callers apart. */
const callerOf = ({ caller, key, request }, parameters) => caller ?? (parameters.get("identifier") || (key ? `caller ${key.slice(0, 8)}` : `request ${request ?? ""}`));

const OUTCOMES = { denied: "denied", would_deny: "would be denied", admitted: "passed" };

/** Its inside is made when it is opened. */
function groupCard({ caller, outcome, rule, namespace, sum, list }, span) {
  const newest = list[0];
  const first = Math.min(...list.map(({ at }) => Date.parse(at)));
  const last = Math.max(...list.map(({ at, last: until }) => Date.parse(until ?? at)));
  const counts = countsOver(list, span, BARS);
  const most = Math.max(...counts);
  const bars = el("span", { className: "bars", "aria-hidden": "true" }, ...counts.map((number) => {
    const bar = el("i");
    bar.style.height = `${most ? Math.max(number ? 8 : 0, (100 * number) / most) : 0}%`;
    return bar;
  }));
  const isToday = moment(first).slice(0, 10) === moment(Date.now()).slice(0, 10);
  const shown = isToday ? clock : moment;
  const when = first === last ? shown(first) : `${shown(first)} – ${shown(last)}`;
  const summary = el("summary", {},
    el("span", { className: "caller" }, caller), el("span", { className: "soft" }, `${rule || "limit in the request"} · ${namespace}`),
    el("span", { className: `sum ${outcome}` }, `${count(sum)} × ${OUTCOMES[outcome] ?? outcome}`), bars, el("span", { className: "soft when" }, `${when} UTC`));
  const card = el("details", { className: "decision" }, summary);
  card.addEventListener("toggle", () => {
    if (card.childElementCount > 1) return;
    const parts = details(newest);
    const others = list.slice(1, LISTED_MAX).map(olderCard);
    const left = list.length - 1 - others.length;
    card.append(el("div", { className: "inside" }, el("p", {}, ...[...new Set(list.map(({ cause }) => cause))].map(chip)), ...parts, copyButton(() => parts[0].textContent, "Copy the sentence"),
      others.length ? el("div", { className: "nested" }, el("h3", {}, "Before that"), ...others) : "", left > 0 ? el("p", { className: "note" }, `And ${count(left)} before those.`) : ""));
  });
  return card;
}

function causes(decisions) {
  const sums = new Map();
  for (const { cause, more = 0 } of decisions) sums.set(cause, (sums.get(cause) ?? 0) + 1 + more);
  return [...sums].sort((a, b) => b[1] - a[1]).map(([cause, sum]) => `${causeWords(cause)}: ${count(sum)}`).join(" · ");
}

function nothing(parameters) {
  const isOpen = [...parameters].length === 0;
  const sentence = isOpen ? "The log has no denial yet. Make one, then search again:" : "The log has nothing about that. Callers are written as answers show them. Leave fields empty to widen the search.";
  return el("div", { className: "card" }, emptyState(sentence, isOpen ? tryThis : undefined));
}

function folded(counted) {
  const lines = counted.map(({ rule, namespace, denials, first, last }) => el("li", {}, `${count(denials)} denials by ${rule || "limits in requests"} of ${namespace}, ${clock(Date.parse(first))} to ${clock(Date.parse(last))} UTC`));
  return el("section", { className: "card", "aria-labelledby": "h-counted" }, el("h2", { id: "h-counted" }, "Counted by rule: too many callers at once to log each"), el("ul", { className: "events" }, ...lines));
}

const fact = (name, value) => (value === undefined || value === "" ? null : el("div", {}, el("dt", {}, name), el("dd", {}, value)));

const chip = (cause) => el("span", { className: `cause ${cause}` }, causeWords(cause));

/** The newest is open: it is most likely what was looked for. */
function newestCard(decision) {
  const [text, ...rest] = details(decision);
  const head = el("div", { className: "head" }, el("h2", {}, chip(decision.cause), ` ${moment(Date.parse(decision.at))} UTC`), copyButton(() => text.textContent, "Copy the sentence"));
  return el("article", { className: "card decision" }, head, text, ...rest);
}

/** Opened by whoever wants it; its inside is made only then. */
function olderCard(decision) {
  const { at, rule, namespace, cause, more } = decision;
  const summary = el("summary", {}, el("span", { className: "mono" }, moment(Date.parse(at))), chip(cause), el("span", { className: "soft" }, `${rule || "limit in the request"} · ${namespace}${more ? `, and ${count(more)} more like it` : ""}`));
  const card = el("details", { className: "decision" }, summary);
  card.addEventListener("toggle", () => {
    if (card.childElementCount > 1) return;
    const parts = details(decision);
    card.append(el("div", { className: "inside" }, ...parts, copyButton(() => parts[0].textContent, "Copy the sentence")));
  });
  return card;
}

/** All that is known of a decision, the sentence first. */
function details(decision) {
  const { cause, sentence, more, last } = decision;
  const advice = CAUSES[cause]?.[1];
  const facts = el("dl", { className: "facts-list" },
    fact("Rule", decision.rule ? `${decision.rule} of ${decision.namespace}` : decision.namespace), fact("Rules version", String(decision.rule_version)),
    fact("Algorithm", decision.algorithm), fact("Cost", String(decision.cost)), fact("Path", decision.path),
    fact("Would have passed", decision.would_pass_at ? `${moment(Date.parse(decision.would_pass_at))} UTC` : ""),
    fact("Node", decision.node), fact("Region", decision.region), fact("Shard", decision.shard), fact("Request", decision.request));
  return [
    el("p", { className: "sentence" }, sentence),
    advice ? el("p", { className: "note" }, advice) : null,
    more ? el("p", { className: "note" }, `${count(more)} more like it until ${clock(Date.parse(last))} UTC.`) : null,
    usedBar(decision), events(decision), facts,
  ].filter(Boolean);
}

const TIERS = { own: "this node", others: "other nodes", world: "other regions", previous: "the window before" };

/** How much of the limit was in use, and who used it. */
function usedBar({ seen, limit }) {
  if (!limit) return null;
  const whole = Math.max(limit, seen.total);
  const parts = Object.keys(TIERS).filter((name) => seen[name] > 0);
  const bar = el("div", { className: "used", "aria-hidden": "true" });
  for (const name of parts) {
    const part = el("span", { className: name });
    part.style.width = `${(100 * seen[name]) / whole}%`;
    bar.append(part);
  }
  const words = parts.map((name) => el("span", {}, el("i", { className: `swatch ${name}` }), `${TIERS[name]} ${count(seen[name])}`));
  return el("div", {}, bar, el("p", { className: "note parts" }, el("span", {}, `${count(seen.total)} of ${count(limit)} in use`), ...words));
}

function events(decision) {
  const found = eventsOf([decision]);
  if (!found.length) return null;
  const line = ({ kind, what, subject, text, since }) => el("li", { className: kind === "unwell" ? "bad-text" : "warn-text" }, `${eventWords(what)}${subject ? ` (${subject})` : ""} ${kind === "unwell" ? "since" : "at"} ${moment(since)} UTC${text ? `: ${text}` : ""}`);
  return el("div", {}, el("h3", {}, "At that time"), el("ul", { className: "events" }, ...found.map(line)));
}
