// Every tier in detail: shards and breakers, regions with their lag, parts of limits, and all that is counted.

import { byId, each, el, setHidden, setText, table } from "./element.js";
import { ago, count, plain, plural, share } from "./words.js";

const card = (id, title) => {
  const lead = el("p", { className: "note" });
  const body = el("div");
  const element = el("section", { className: "card", "aria-labelledby": id }, el("h2", { id }, title), lead, body);
  return { element, lead, body };
};

/** The node tells of so many. */
const PARTS_SHOWN = 100;

const text = (of) => (cell, item) => setText(cell, of(item));

const breakerCell = (cell, { breaker }) => {
  setText(cell, breaker === "open" ? "open: not called" : "closed");
  cell.className = breaker === "open" ? "bad-text" : "";
};

const SHARD_STATES = {
  healthy: ["Healthy", "good-text"],
  recovering: ["Recovering", "warn-text"],
  suspect: ["Degraded: data may be missing", "warn-text"],
  unavailable: ["Unavailable", "bad-text"],
};

/** As the node sees it, with the words of the server or of the connection. */
const stateCell = (cell, { data, problem, keys_to_republish }) => {
  const [word, className] = SHARD_STATES[data] ?? ["Unknown: it hasn't answered yet", ""];
  const waiting = keys_to_republish ? `${plural(keys_to_republish, "key")} to publish again` : "";
  setText(cell, [word, problem, waiting].filter(Boolean).join(": "));
  cell.className = className;
};

/** All numbers of an object, folded away. */
function counters(title) {
  const list = el("dl", { className: "counters" });
  const element = el("details", {}, el("summary", {}, title), list);
  const fill = (object) => {
    const numbers = Object.entries(object ?? {}).filter(([, value]) => typeof value === "number");
    each(list, numbers, {
      key: ([name]) => name,
      make: ([name]) => el("div", {}, el("dt", {}, plain(name)), el("dd")),
      update: (row, [, value]) => setText(row.lastChild, count(value)),
    });
    setHidden(element, numbers.length === 0);
  };
  return { element, fill };
}

export function tiers() {
  const [origin, world, slices, node] = [card("t-origin", "Region's store"), card("t-world", "Other regions"), card("t-slices", "Parts of limits that this region enforces"), card("t-node", "This node")];
  const all = [counters("All that the region tier counts"), counters("All that the world tier counts"), counters("All that quotas count"), counters("All that the node counts")];
  [origin, world, slices, node].forEach(({ element }, index) => element.append(all[index].element));
  byId("tiers").replaceChildren(el("div", { className: "stack" }, origin.element, world.element, slices.element, node.element));
  const shards = table(origin.body, {
    caption: "Shards of the region's store", key: ({ address }) => address,
    columns: [
      { title: "Shard", cell: text(({ address }) => address) },
      { title: "State", cell: stateCell },
      { title: "Breaker", cell: breakerCell },
      { title: "Opened", className: "number", cell: text(({ breaker_opened }) => count(breaker_opened)) },
    ],
  });
  const regions = table(world.body, {
    caption: "Regions", key: ({ name, owner }) => `${name} ${owner}`,
    columns: [
      { title: "Region", cell: text(({ name, is_self }) => (is_self ? `${name} (this one)` : name)) },
      { title: "State", cell: text(({ is_active }) => (is_active ? "active" : "not counted in")) },
      { title: "Lag", className: "number", cell: text(({ seen_ms_ago }) => ago(seen_ms_ago)) },
    ],
  });
  const parts = table(slices.body, {
    caption: "Parts of limits", key: ({ key }) => key,
    columns: [
      { title: "Key", className: "mono", cell: text(({ key }) => key) },
      { title: "Part", className: "number", cell: text(({ amount, of }) => `${count(amount)} of ${count(of)}`) },
      { title: "Of the rate", className: "number", cell: text(({ rate_billionths }) => share(rate_billionths, 1e9)) },
      { title: "Leased", className: "number", cell: text(({ is_leased }) => (is_leased ? "yes" : "no")) },
    ],
  });

  return {
    show({ state }) {
      if (!state) return;
      setText(origin.lead, originWords(state.origin));
      shards(state.origin?.shards ?? []);
      setText(world.lead, worldWords(state.world));
      regions(state.world?.regions ?? []);
      const quotas = state.world?.quotas;
      setHidden(slices.element, !quotas);
      setText(slices.lead, quotas ? `${plural(quotas.slices, "part")} of ${plural(quotas.keys_tracked, "key")} that ${quotas.keys_tracked === 1 ? "is" : "are"} followed; other keys stand at the limit divided by the regions.${quotas.slices > PARTS_SHOWN ? " The first hundred are shown." : ""}` : "");
      parts(quotas?.in_force ?? []);
      setText(node.lead, `Version ${state.version}, ${plural(state.keys ?? 0, "key")} in memory, ${plural(state.clock_steps ?? 0, "clock step")} since it started.`);
      [state.origin, state.world, quotas, state.stats].forEach((object, index) => all[index].fill(object));
    },
  };
}

function originWords(origin) {
  if (!origin) return "None: counts are this node's own, which is right for one node. To share them with others, set origin.url to a Redis.";
  if (origin.problem) return `Not used: ${origin.problem}.`;
  return `${plural(origin.live_nodes, "live node")}; ${plural(origin.keys_waiting_for_a_shard, "key")} waiting for a shard that is away.`;
}

function worldWords(world) {
  if (!world) return "None: limits are this region's own. To share them with other regions, set region and world.url.";
  const said = [world.alarm, world.problem].filter(Boolean).map((words) => `${words}. `).join("");
  const policy = world.policy ? `Policy ${world.policy}. ` : "";
  if (!world.is_worker) return `${said}${policy}${plural(world.regions_sharing ?? 0, "region")} share. Another node of this region works for it, and shows the regions and their lag.`;
  const when = (name, words) => (world[name] === undefined ? "" : `${words} ${ago(world[name])} ago. `);
  return `${said}${policy}This node works for the region; the database's breaker is ${world.breaker}. ${when("published_ms_ago", "Published")}${when("imported_ms_ago", "Imported")}${plural(world.cells_waiting, "cell")} waiting.`;
}
