// The rules in force and where they come from; with a control plane also the editor, overrides, history, and which node
// has which version.

import { ask } from "./ask.js";
import { byId, each, el, emptyState, setHidden, setText, table } from "./element.js";
import { ago, count, plural } from "./words.js";
import { makeEditor } from "./editor.js";
import { makeOverrides } from "./overrides.js";
import { makeVersions } from "./versions.js";

/** The control plane is asked seldom, and more often after a push. */
const FLEET_EVERY_MS = 3000;
const SHADOW_CALLERS = 5;
const text = (of) => (cell, item) => setText(cell, of(item));

export function rules(announce) {
  const from = byId("rules-from");
  const words = el("p");
  const problem = el("p", { className: "problem warn", hidden: true });
  from.replaceChildren(el("h2", {}, "Where they come from"), words, problem);
  const showShadow = shadowReport(byId("rules-shadow"));
  const nodes = nodesTable(byId("rules-nodes"));
  const changed = () => (asked = -Infinity);
  const versions = makeVersions(byId("rules-versions"), announce, changed);
  const overrides = makeOverrides(byId("rules-overrides"), announce, changed);
  const editor = makeEditor(byId("editor"), announce, changed);
  let asked = -Infinity;

  async function look({ state }) {
    const now = performance.now();
    if (now - asked < FLEET_EVERY_MS) return;
    asked = now;
    const quietly = (path) => ask(path).catch(() => null);
    const [shadow, known, history] = await Promise.all([
      quietly("/v1/shadow"),
      state.rules_stream && state.caller?.is_operator ? quietly("/v1/control/nodes") : null,
      state.rules_stream ? quietly("/v1/control/history?limit=20") : null,
    ]);
    if (shadow) showShadow(shadow);
    nodes(known);
    versions(state, history);
  }

  return {
    show(live) {
      if (!live.state) return;
      setText(words, source(live.state));
      const said = live.state.rules_stream?.refused_because ?? live.state.rules_stream?.problem ?? live.state.rules_problem ?? live.rules?.warnings?.[0];
      setText(problem, said ?? "");
      setHidden(problem, !said);
      setHidden(byId("editor"), !live.state.rules_stream);
      setHidden(byId("rules-overrides"), !live.state.rules_stream);
      if (live.state.rules_stream) {
        editor(live.state);
        overrides(live);
      }
      if (live.rules) each(byId("rules-list"), live.rules.namespaces, { key: (one) => `${one.tenant} ${one.namespace}`, make: makeNamespace, update: updateNamespace });
      setHidden(byId("rules-list"), !live.rules?.namespaces.length);
      void look(live);
    },
  };
}

function source(state) {
  const stream = state.rules_stream;
  const size = state.rules ? "" : " There is none yet: everything is allowed, but for limits that come with requests.";
  if (!stream) return `From files, read-only here: ${state.rules_path ?? "given to the node when it started"}. The node reads them again when they change; version ${state.rule_version} is in force.${size}`;
  const behind = stream.head > stream.version ? `, ${stream.head - stream.version} behind` : ", the newest";
  return `From the control plane ${stream.server ?? stream.servers[0]}${stream.is_connected ? "" : " (not connected)"}: version ${stream.version}${behind}; heard of ${ago(stream.stale_ms)} ago.${size}`;
}

function makeNamespace({ namespace, tenant }) {
  const id = `ns-${tenant}-${namespace}`.replace(/[^\w-]/g, "_");
  const element = el("section", { className: "card", "aria-labelledby": id }, el("div", { className: "head" }, el("h2", { id }, namespace, tenant === "default" ? "" : ` of ${tenant}`), el("span", { className: "soft" })), el("div"));
  element.fill = table(element.lastChild, {
    caption: `Rules of ${namespace}`, key: ({ name }) => name,
    empty: emptyState("No rule in this namespace."),
    columns: [
      { title: "Rule", cell: ruleCell },
      { title: "What it means", cell: meaningCell },
      { title: "Overrides", className: "number wide", cell: text(({ overrides }) => count(overrides.exact + overrides.pattern)) },
    ],
  });
  return element;
}

function updateNamespace(element, { mode, rules: list }) {
  setText(element.firstChild.lastChild, mode === "enforce" ? plural(list.length, "rule") : `mode ${mode}`);
  element.fill(list);
}

function ruleCell(cell, { name, options }) {
  if (!cell.firstChild) cell.append(el("span", { className: "rule-name" }), el("span", { className: "mark calm", hidden: true }));
  setText(cell.firstChild, name);
  const isShadow = options.some((option) => option.startsWith("shadow"));
  setHidden(cell.lastChild, !isShadow);
  setText(cell.lastChild, "shadow");
}

function meaningCell(cell, { meaning, description, options }) {
  if (!cell.firstChild) cell.append(el("span"), el("span", { className: "second" }));
  setText(cell.firstChild, meaning);
  setText(cell.lastChild, [description, options.join(", ")].filter(Boolean).join(" · "));
}

function shadowReport(parent) {
  const body = el("div");
  parent.replaceChildren(el("h2", {}, "Shadow rules: whom they would have denied"), el("p", { className: "note" }, "Counted by this node since it started. A rule with shadow: true counts and never denies."), body);
  const fill = table(body, {
    caption: "Shadow rules", key: ({ tenant, namespace, rule }) => JSON.stringify([tenant, namespace, rule]),
    empty: emptyState("No shadow rule has anything to report."),
    columns: [
      { title: "Rule", cell: text(({ rule, namespace }) => `${rule} · ${namespace}`) },
      { title: "Callers", cell: text(({ callers }) => callers.slice(0, SHADOW_CALLERS).map(({ identifier, denials }) => `${identifier} (${count(denials)})`).join(", ")) },
      { title: "Would deny", className: "number", cell: text(({ denials }) => count(denials)) },
    ],
  });
  return ({ rules: list }) => fill(list);
}

function nodesTable(parent) {
  const [body, lead] = [el("div"), el("p", { className: "note" })];
  parent.replaceChildren(el("section", { className: "card", "aria-labelledby": "h-nodes" }, el("h2", { id: "h-nodes" }, "Which node has which version"), lead, body));
  const nodes = table(body, {
    caption: "Nodes and their rule versions", key: ({ node, role }) => `${role} ${node}`,
    empty: emptyState("The control plane knows of no node, or can't be asked."),
    columns: [
      { title: "Node", cell: text(({ node, role }) => (role === "node" ? node : `${node} (${role})`)) },
      { title: "Region", className: "wide", cell: text(({ region }) => region) },
      { title: "Version", className: "number", cell: text(({ rule_version, refused_version }) => (refused_version ? `${rule_version}, refused ${refused_version}` : rule_version)) },
      { title: "Seen", className: "number", cell: text(({ seen_ms_ago, is_connected }) => (is_connected ? `${ago(seen_ms_ago)} ago` : "gone")) },
    ],
  });
  return (known) => {
    setHidden(parent, !known);
    const list = known?.nodes ?? [];
    const behind = list.filter(({ rule_version, is_connected }) => is_connected && rule_version < known.version).length;
    setText(lead, known ? (behind ? `${plural(behind, "node")} still behind version ${known.version}.` : `All that are connected have version ${known.version}.`) : "");
    nodes(list);
  };
}
