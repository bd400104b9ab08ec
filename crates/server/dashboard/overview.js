// The first look: is everything all right, and if not, where.

import { ask } from "./ask.js";
import { byId, each, el, emptyState, setAttribute, setText, table } from "./element.js";
import { ago, causeWords, clock, count, plural, rate, share } from "./words.js";
import { callerTable, tryThis } from "./callers.js";
import { chart } from "./chart.js";

/** Over so many seconds figures are averaged. */
const AVERAGED = 10;
const SHOWN = 6;
/** The log is on disk: it is asked seldom, and only when there is something new in it. */
const LATEST_EVERY_MS = 4000;

/** `{ kind, health, word, facts, href }` of each tier. */
export function tiersOf({ state }) {
  return [nodeTier(state), originTier(state.origin), worldTier(state.world), rulesTier(state)];
}

function nodeTier(state) {
  const lost = state.stats?.decisions_log_lost ?? 0;
  const refused = state.stats?.keys_refused_denied ?? 0;
  const facts = [plural(state.keys ?? 0, "key")];
  if (state.clock_steps) facts.push(plural(state.clock_steps, "clock step"));
  if (lost) facts.push(`${plural(lost, "log record")} lost`);
  if (refused) facts.push(`${count(refused)} denied for want of room`);
  return { kind: "This node", health: lost || refused ? "warn" : "good", word: "Decides", facts: facts.join(", "), href: "#/tiers" };
}

function originTier(origin) {
  const tier = { kind: "Region's store", href: "#/tiers" };
  if (!origin) return { ...tier, health: "none", word: "None", facts: "Counts are this node's own. origin.url shares them." };
  const open = origin.shards.filter(({ breaker }) => breaker === "open").length;
  const facts = [plural(origin.live_nodes, "live node"), ...(origin.keys_waiting_for_a_shard ? [`${plural(origin.keys_waiting_for_a_shard, "key")} waiting`] : [])].join(", ");
  if (origin.problem) return { ...tier, health: "bad", word: "Not used", facts: origin.problem };
  if (open) return { ...tier, health: "bad", word: `${open} of ${plural(origin.shards.length, "shard")} away`, facts: `${facts}. Decided by what the node knows.` };
  const recovering = origin.shards.filter(({ data }) => data === "recovering").length;
  if (recovering) return { ...tier, health: "warn", word: "Recovering", facts: `${facts}. It lost data; nodes publish again what they know.` };
  return { ...tier, health: "good", word: origin.shards.length === 1 ? "Answers" : `All ${origin.shards.length} shards answer`, facts };
}

function worldTier(world) {
  const tier = { kind: "Other regions", href: "#/tiers" };
  if (!world) return { ...tier, health: "none", word: "None", facts: "Limits are this region's own. world.url shares them." };
  const regions = world.regions_sharing ? plural(world.regions_sharing, "region") : "not heard of yet";
  if (world.alarm || world.problem) return { ...tier, health: "bad", word: world.alarm ? "Two of one name" : "Can't agree", facts: world.alarm ?? world.problem };
  if (world.breaker === "open") return { ...tier, health: "bad", word: "Database away", facts: `${regions}. This region goes on alone.` };
  const heard = world.imported_ms_ago === undefined ? "" : `, heard ${ago(world.imported_ms_ago)} ago`;
  return { ...tier, health: world.regions_sharing ? "good" : "warn", word: "Agree", facts: `${regions}${heard}${world.is_worker ? "; this node is the region's worker" : ""}` };
}

function rulesTier(state) {
  const stream = state.rules_stream;
  const size = `${plural(state.rules ?? 0, "rule")} in ${plural(state.namespaces ?? 0, "namespace")}`;
  const tier = { kind: "Rules", href: "#/rules", word: `Version ${stream?.version ?? state.rule_version}`, facts: size };
  if (!stream) return { ...tier, health: state.stats?.rule_reload_failures ? "warn" : "good", facts: state.stats?.rule_reload_failures ? `${size}; ${plural(state.stats.rule_reload_failures, "bad file")} refused` : size };
  const behind = stream.head - stream.version;
  const said = stream.refused_because ?? stream.problem;
  const late = `${size}${behind > 0 ? `; ${behind} behind` : ""}; heard ${ago(stream.stale_ms)} ago`;
  const health = stream.staleness === "alarm" ? "bad" : stream.staleness === "warning" || said ? "warn" : "good";
  return { ...tier, health, facts: said ? `${late}. ${said}` : late };
}

const HEALTH = { good: "well", warn: "look at it", bad: "unwell", none: "not in use" };

/** `[admitted, denied]` a second, of late. */
export function ratesOf(seconds) {
  const recent = seconds.slice(-AVERAGED);
  const sum = (place) => recent.reduce((total, second) => total + second[place], 0);
  const span = recent.length;
  return span ? [sum(1) / span, sum(2) / span] : [0, 0];
}

export function overview() {
  const draw = chart(byId("chart"), byId("chart-readout"));
  const denied = callerTable(byId("denied-now"), "Callers that are denied most now", emptyState("Nobody is denied now. To see it happen:", tryThis()));
  const none = emptyState("The log has no denial yet. Every denial is here within a second.");
  const latest = table(byId("latest"), {
    caption: "The latest denials",
    key: ({ at, key, request }) => `${at} ${key} ${request}`,
    hold: true,
    empty: none,
    columns: [
      { title: "UTC", className: "time", cell: (cell, { at }) => setText(cell, clock(Date.parse(at))) },
      { title: "Rule and cause", cell: causeCell },
      { title: "Reason", className: "act", cell: reasonCell },
    ],
  });
  const asked = { at: -Infinity, denied: -1 };

  async function showLatest(live) {
    const total = live.state.stats?.requests_denied ?? 0;
    const now = performance.now();
    if (total === asked.denied || now - asked.at < LATEST_EVERY_MS) return;
    Object.assign(asked, { at: now, denied: total });
    try {
      // Of what shadow rules would have denied there may be many in between.
      const { decisions } = await ask(`/v1/why?limit=${10 * SHOWN}`);
      latest(decisions.filter(({ outcome }) => outcome === "denied").slice(0, SHOWN));
    } catch (error) {
      latest([]);
      setText(none.firstChild, error.message);
    }
  }

  return {
    show(live) {
      if (!live.state) return;
      const [admitted, deniedRate] = ratesOf(live.seconds);
      setText(byId("f-decisions"), live.seconds.length ? rate(admitted + deniedRate) : "–");
      setText(byId("f-denied"), live.seconds.length ? rate(deniedRate) : "–");
      setText(byId("f-share"), live.seconds.length ? share(deniedRate, admitted + deniedRate) : "–");
      setText(byId("f-keys"), count(live.state.keys));
      draw(live);
      each(byId("glance"), tiersOf(live), { key: ({ kind }) => kind, make: makeTier, update: updateTier });
      denied((live.top?.denied ?? []).slice(0, SHOWN));
      void showLatest(live);
    },
  };
}

function makeTier({ href }) {
  return el("a", { className: "tier", href }, el("span", { className: "kind" }), el("span", { className: "word" }), el("span", { className: "facts" }));
}

function updateTier(card, { kind, health, word, facts }) {
  setAttribute(card, "data-health", health);
  const [name, state, more] = card.children;
  setText(name, `${kind} · ${HEALTH[health]}`);
  setText(state, word);
  setText(more, facts);
}

function causeCell(cell, { rule, namespace, cause, more }) {
  if (!cell.firstChild) cell.append(el("span", {}), el("span", { className: "second" }));
  setText(cell.children[0], rule ? `${rule} · ${namespace}` : (namespace ?? ""));
  setText(cell.children[1], `${causeWords(cause)}${more ? `, and ${count(more)} more like it` : ""}`);
}

function reasonCell(cell, { request, rule, namespace, at }) {
  if (!cell.firstChild) cell.append(el("a", {}, "Why?"));
  const from = request ? { request_id: request } : { rule, namespace };
  setAttribute(cell.firstChild, "href", `#/why?${new URLSearchParams(Object.entries(from).filter(([, value]) => value))}`);
  setAttribute(cell.firstChild, "aria-label", `Why was the request at ${clock(Date.parse(at))} denied?`);
}
