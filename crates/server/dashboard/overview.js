// The first look: is everything all right, and if not, where.

import { ask } from "./ask.js";
import { byId, each, el, emptyState, setAttribute, setText, table } from "./element.js";
import { ago, causeWords, clock, count, plural, rate, share } from "./words.js";
import { callerTable, tryThis } from "./callers.js";
import { chart } from "./chart.js";
import { decisionLines, rangePicker } from "./charts.js";
import { recentRates } from "./live.js";

const SHOWN = 6;
/** The log is on disk: it is asked seldom, and only when there is something new in it. */
const LATEST_EVERY_MS = 4000;

/** `{ kind, health, word, facts, href }` of each tier; the word says how it is, in the words of `/v1/state`. */
export function tiersOf({ state }) {
  return [nodeTier(state), originTier(state.origin), worldTier(state.world), rulesTier(state)];
}

const healthy = { health: "good", word: "Healthy" };
const degraded = { health: "warn", word: "Degraded" };
const recovering = { health: "warn", word: "Recovering" };
const unavailable = { health: "bad", word: "Unavailable" };
const unused = { health: "none", word: "Not configured" };

function nodeTier(state) {
  const lost = state.stats?.decisions_log_lost ?? 0;
  const refused = state.stats?.keys_refused_denied ?? 0;
  const facts = [`${plural(state.keys ?? 0, "key")} in memory`];
  if (state.clock_steps) facts.push(plural(state.clock_steps, "clock step"));
  if (lost) facts.push(`${plural(lost, "log record")} lost`);
  if (refused) facts.push(`${count(refused)} requests denied because the table of keys was full`);
  return { kind: "This node", ...(lost || refused ? degraded : healthy), facts: facts.join(", "), href: "#/tiers" };
}

function originTier(origin) {
  const tier = { kind: "Region's store", href: "#/tiers" };
  if (!origin) return { ...tier, ...unused, facts: "This node counts alone. Set origin.url to share counts with other nodes." };
  const away = origin.shards.filter(({ breaker, data }) => breaker === "open" || data === "unavailable");
  const waiting = origin.keys_waiting_for_a_shard;
  const facts = [plural(origin.live_nodes, "live node"), waiting ? `${plural(waiting, "key")} waiting` : ""].filter(Boolean).join(", ");
  if (origin.problem) return { ...tier, ...unavailable, facts: origin.problem };
  if (away.length) {
    const which = origin.shards.length === 1 ? "" : `${count(away.length)} of ${plural(origin.shards.length, "shard")}. `;
    const said = away.find(({ problem }) => problem)?.problem;
    return { ...tier, ...(away.length === origin.shards.length ? unavailable : degraded), facts: `${which}${said ? `${said}. ` : ""}Requests are decided by what this node knows.` };
  }
  if (origin.shards.some(({ data }) => data === "recovering")) return { ...tier, ...recovering, facts: `${facts}. The store lost data; the nodes are publishing it again.` };
  return { ...tier, ...healthy, facts: origin.shards.length === 1 ? facts : `${plural(origin.shards.length, "shard")}, ${facts}` };
}

function worldTier(world) {
  const tier = { kind: "Other regions", href: "#/tiers" };
  if (!world) return { ...tier, ...unused, facts: "Limits hold in this region only. Set world.url to share them with other regions." };
  const regions = world.regions_sharing ? plural(world.regions_sharing, "region") : "No other region is known yet";
  if (world.alarm || world.problem) return { ...tier, ...unavailable, facts: world.alarm ?? world.problem };
  if (world.breaker === "open") return { ...tier, ...unavailable, facts: `${regions}. The database doesn't answer; this region goes on alone.` };
  const heard = world.imported_ms_ago === undefined ? "" : `, heard ${ago(world.imported_ms_ago)} ago`;
  return { ...tier, ...(world.regions_sharing ? healthy : degraded), facts: `${regions}${heard}${world.is_worker ? "; this node is the region's worker" : ""}` };
}

function rulesTier(state) {
  const stream = state.rules_stream;
  const size = `Version ${stream?.version ?? state.rule_version}: ${plural(state.rules ?? 0, "rule")} in ${plural(state.namespaces ?? 0, "namespace")}`;
  const tier = { kind: "Rules", href: "#/rules" };
  const refused = state.rules_problem;
  if (!stream) return { ...tier, ...(refused ? degraded : healthy), facts: refused ? `${size}. The file was changed and is refused: ${refused}` : size };
  const behind = stream.head - stream.version;
  const said = stream.refused_because ?? stream.problem ?? refused;
  const late = `${size}${behind > 0 ? `; ${plural(behind, "version")} behind` : ""}; checked ${ago(stream.stale_ms)} ago`;
  const health = stream.staleness === "alarm" ? unavailable : stream.staleness === "warning" || said ? degraded : healthy;
  return { ...tier, ...health, facts: said ? `${late}. ${said}` : late };
}

export function overview() {
  const decisions = chart({ title: "Decisions", height: 220, series: decisionLines, words: (value) => `${rate(value)}/s` });
  byId("overview-chart").replaceChildren(decisions.element);
  byId("overview-picker").replaceChildren(rangePicker("overview"));
  const denied = callerTable(byId("denied-now"), "Callers that are denied most now", emptyState("Nobody is denied now. To see it happen:", tryThis));
  const none = emptyState("The log has no denial yet. Every denial is here within a second.");
  const latest = table(byId("latest"), {
    caption: "The latest denials",
    key: ({ at, key, request }) => `${at} ${key} ${request}`,
    hold: true,
    empty: none,
    columns: [
      { title: "UTC", className: "time", cell: (cell, { at }) => setText(cell, clock(Date.parse(at))) },
      { title: "What and why", cell: causeCell },
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
      const rates = recentRates();
      const [admitted, deniedRate] = rates ?? [0, 0];
      setText(byId("f-decisions"), rates ? rate(admitted + deniedRate) : "–");
      setText(byId("f-denied"), rates ? rate(deniedRate) : "–");
      byId("f-denied").classList.toggle("denied", deniedRate > 0);
      setText(byId("f-share"), rates ? share(deniedRate, admitted + deniedRate) : "–");
      setText(byId("f-keys"), count(live.state.keys));
      decisions.draw();
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
  setText(name, kind);
  setText(state, word);
  setText(more, facts);
}

function causeCell(cell, { caller, rule, namespace, cause, more }) {
  if (!cell.firstChild) cell.append(el("span", {}), el("span", { className: "second" }));
  // The log has names where log.identifiers says so.
  setText(cell.children[0], [caller, rule, namespace].filter(Boolean).join(" · "));
  setText(cell.children[1], `${causeWords(cause)}${more ? `, and ${count(more)} more like it` : ""}`);
}

function reasonCell(cell, { request, rule, namespace, at }) {
  if (!cell.firstChild) cell.append(el("a", {}, "Why?"));
  const from = request ? { request_id: request } : { rule, namespace };
  setAttribute(cell.firstChild, "href", `#/why?${new URLSearchParams(Object.entries(from).filter(([, value]) => value))}`);
  setAttribute(cell.firstChild, "aria-label", `Why was the request at ${clock(Date.parse(at))} denied?`);
}
