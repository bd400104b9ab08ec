// The rules in force and where they come from; with a control plane also its history, who has which version, and the
// editor: change the text, see what it means, say why, push. Nothing is pushed that wasn't shown first.

import { ask } from "./ask.js";
import { byId, each, el, emptyState, setHidden, setText, table } from "./element.js";
import { ago, count, moment, plural } from "./words.js";
import { differenceView } from "./difference.js";
import { trial } from "./trial.js";

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
  const fleet = fleetTables(byId("rules-fleet"));
  const editor = makeEditor(byId("editor"), announce, () => (asked = -Infinity));
  let asked = -Infinity;

  async function look({ state }) {
    const now = performance.now();
    if (now - asked < FLEET_EVERY_MS) return;
    asked = now;
    const quietly = (path) => ask(path).catch(() => null);
    const [shadow, nodes, history] = await Promise.all([
      quietly("/v1/shadow"),
      state.rules_stream && state.caller?.is_operator ? quietly("/v1/control/nodes") : null,
      state.rules_stream ? quietly("/v1/control/history") : null,
    ]);
    if (shadow) showShadow(shadow);
    fleet(nodes, history);
  }

  return {
    show(live) {
      if (!live.state) return;
      setText(words, source(live.state));
      const said = live.state.rules_stream?.refused_because ?? live.state.rules_stream?.problem ?? live.rules?.warnings?.[0];
      setText(problem, said ?? "");
      setHidden(problem, !said);
      setHidden(byId("editor"), !live.state.rules_stream);
      if (live.state.rules_stream) editor(live.state);
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
  if (!cell.firstChild) cell.append(el("span"), el("span", { className: "mark calm", hidden: true }));
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

function fleetTables(parent) {
  const [nodeBody, historyBody, lead] = [el("div"), el("div"), el("p", { className: "note" })];
  const nodesCard = el("section", { className: "card", "aria-labelledby": "h-nodes" }, el("h2", { id: "h-nodes" }, "Who has which version"), lead, nodeBody);
  const historyCard = el("section", { className: "card", "aria-labelledby": "h-history" }, el("h2", { id: "h-history" }, "History"), historyBody);
  parent.replaceChildren(nodesCard, historyCard);
  const nodes = table(nodeBody, {
    caption: "Nodes and their rule versions", key: ({ node, role }) => `${role} ${node}`,
    empty: emptyState("The control plane knows of no node, or can't be asked."),
    columns: [
      { title: "Node", cell: text(({ node, role }) => (role === "node" ? node : `${node} (${role})`)) },
      { title: "Region", className: "wide", cell: text(({ region }) => region) },
      { title: "Version", className: "number", cell: text(({ rule_version, refused_version }) => (refused_version ? `${rule_version}, refused ${refused_version}` : rule_version)) },
      { title: "Seen", className: "number", cell: text(({ seen_ms_ago, is_connected }) => (is_connected ? `${ago(seen_ms_ago)} ago` : "gone")) },
    ],
  });
  const history = table(historyBody, {
    caption: "Versions of the rules", key: ({ version }) => version,
    empty: emptyState("No version yet, or the control plane can't be asked."),
    columns: [
      { title: "Version", className: "time", cell: text(({ version }) => version) },
      { title: "Why", cell: historyCell },
    ],
  });
  return (known, versions) => {
    setHidden(parent, !known && !versions);
    setHidden(nodesCard, !known);
    const list = known?.nodes ?? [];
    const behind = list.filter(({ rule_version, is_connected }) => is_connected && rule_version < known.version).length;
    setText(lead, known ? (behind ? `${plural(behind, "node")} still behind version ${known.version}.` : `All that are connected have version ${known.version}.`) : "");
    nodes(list);
    history((versions?.history ?? []).slice(0, 20));
  };
}

function historyCell(cell, { reason, author, at_us, changes }) {
  if (!cell.firstChild) cell.append(el("span"), el("span", { className: "second" }));
  setText(cell.firstChild, reason || "no reason given");
  setText(cell.lastChild, `${author}, ${moment(at_us / 1000)} UTC, ${plural(changes, "change")}`);
}

const TEMPLATE = "namespace: api\nrules:\n  - name: per-user\n    key: [user]\n    limit: 100 per 1m\n";
const NEW = "new";

/** The editor; returns what shows it for a caller who may or may not change rules. */
function makeEditor(parent, announce, changed) {
  /** The texts that the edit began from, and their version. */
  let base = { version: 0, documents: [] };
  let chosen = "";
  let isLoading = false;
  const choice = el("select", { id: "editor-namespace" });
  const area = el("textarea", { id: "editor-text", spellcheck: false, autocomplete: "off", maxLength: 900_000, "aria-describedby": "editor-hint" });
  const review = el("button", { type: "button", className: "main" }, "Review the change");
  const tryIt = el("button", { type: "button", className: "quiet" }, "Try as shadow");
  const reload = el("button", { type: "button", className: "quiet" }, "Start over");
  const outcome = el("div", { className: "stack" });
  const hint = el("p", { id: "editor-hint", className: "note" });
  const body = el("div", { className: "stack" }, el("div", { className: "row" }, el("label", { for: "editor-namespace" }, "Namespace ", choice)), el("label", { for: "editor-text" }, "Its rules, as YAML; overrides stay as they are ", area), hint, el("div", { className: "row" }, review, tryIt, reload), outcome);
  const locked = el("p", { className: "note" }, "Changing them takes a token with the permission admin: tidegate token new --permissions admin. Until then this is what they are.");
  parent.replaceChildren(el("section", { className: "card", "aria-labelledby": "h-editor" }, el("h2", { id: "h-editor" }, "Change rules"), locked, body));

  const nameOf = ({ tenant, namespace }) => JSON.stringify([tenant, namespace]);
  const current = () => base.documents.find((document) => nameOf(document) === chosen)?.text ?? "";
  const say = (...nodes) => outcome.replaceChildren(...nodes);
  const note = (kind, words, ...more) => el("div", { className: `problem ${kind}`, role: "alert" }, words, ...more);

  async function load({ keepText } = {}) {
    isLoading = true;
    try {
      base = await ask("/v1/control/rules");
      const options = base.documents.map((document) => el("option", { value: nameOf(document) }, document.tenant === "default" ? document.namespace : `${document.namespace} of ${document.tenant}`));
      choice.replaceChildren(...options, el("option", { value: NEW }, "a new namespace"));
      if (![...choice.options].some(({ value }) => value === chosen)) chosen = choice.options[0].value;
      choice.value = chosen;
      if (!keepText) area.value = chosen === NEW ? TEMPLATE : current();
      hint.textContent = `Upon version ${base.version}.`;
      return true;
    } catch (error) {
      say(note("", `${error.message}. ${error.fix ?? ""}`));
      return false;
    } finally {
      isLoading = false;
    }
  }

  const push = (words, more) => ask("/v1/control/rules", { files: [{ name: "rules.yaml", text: words }], keep_overrides: true, if_version: base.version, ...more });

  function refused(error, words) {
    if (error.code === "conflict") return conflict(error);
    const errors = error.more?.errors ?? [];
    const list = errors.length ? el("ul", {}, ...errors.map(({ line, column, message, fix }) => el("li", {}, `Line ${line}, column ${column}: ${message}; ${fix}`))) : ` ${error.fix ?? ""}`;
    const [first] = errors;
    if (first && words === area.value) markLine(first.line);
    return say(note("", errors.length ? "Nothing was stored: the rules have mistakes." : `${error.message}.`, list));
  }

  function markLine(number) {
    const lines = area.value.split("\n");
    const start = lines.slice(0, number - 1).reduce((sum, line) => sum + line.length + 1, 0);
    area.focus();
    area.setSelectionRange(start, start + (lines[number - 1]?.length ?? 0));
  }

  function conflict({ more }) {
    const again = el("button", { type: "button", className: "main" }, `Review my text upon version ${more.version}`);
    const theirs = el("button", { type: "button", className: "quiet" }, "Take theirs, drop mine");
    again.addEventListener("click", async () => (await load({ keepText: true })) && showReview(area.value));
    theirs.addEventListener("click", async () => (await load()) && say());
    const who = (more.history ?? []).map(({ version, author, reason }) => el("li", {}, `Version ${version} by ${author}: ${reason || "no reason given"}`));
    say(note("warn", `Somebody was faster: the rules are at version ${more.version}, and you began from ${more.if_version}. Nothing was stored.`, el("ul", {}, ...who)), el("h3", {}, "What changed meanwhile"), meaning(more.lines ?? []), el("div", { className: "row" }, again, theirs));
    again.focus();
  }

  async function showReview(words, tried = []) {
    try {
      const would = await push(words, { dry_run: true });
      if (!would.changes) return say(note("good", "Nothing would change."));
      const reason = el("input", { id: "editor-reason", maxLength: 200, placeholder: "what it is for, for those who read the history", autocomplete: "off" });
      const button = el("button", { type: "submit", className: "main" }, tried.length ? "Push the trial" : `Push version ${base.version + 1}`);
      const form = el("form", { className: "row" }, el("label", { for: "editor-reason", className: "grow" }, "Reason ", reason), button);
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        button.disabled = true;
        await store(words, reason.value.trim(), tried);
        button.disabled = false;
      });
      const differences = would.documents.map(({ namespace, before, after }) => el("div", {}, el("h3", {}, `Lines of ${namespace}`), differenceView(before ?? "", after ?? "")));
      say(tried.length ? note("warn", `Only tried: ${tried.join(", ")} will count and never deny. What is enforced stays as it is. Overrides don't apply to a trial.`) : "", el("h3", {}, "What it means"), meaning(would.lines), ...differences, form);
      reason.focus();
    } catch (error) {
      refused(error, words);
    }
  }

  async function store(words, reason, tried) {
    try {
      const { version } = await push(words, { reason });
      const told = tried.length ? `Version ${version} is stored. ${tried.join(", ")} counts in shadow: whom it would deny is in the report below.` : `Version ${version} is stored. Nodes have it within half a second; see who has it below.`;
      await load();
      say(note("good", told));
      announce(told);
      changed();
    } catch (error) {
      refused(error, words);
    }
  }

  choice.addEventListener("change", () => {
    chosen = choice.value;
    area.value = chosen === NEW ? TEMPLATE : current();
    say();
  });
  review.addEventListener("click", () => void showReview(area.value));
  tryIt.addEventListener("click", () => {
    const made = trial(current(), area.value);
    if (made) void showReview(made.text, made.tried);
    else say(note("warn", "No rule was changed or added: edit one, then try it."));
  });
  reload.addEventListener("click", async () => (await load()) && say());

  return (state) => {
    const may = state.caller?.may_change ?? false;
    setHidden(locked, may);
    for (const control of [review, tryIt]) setHidden(control, !may);
    if (area.readOnly !== !may) area.readOnly = !may;
    if (!choice.options.length && !isLoading && !outcome.childElementCount) void load();
  };
}

function meaning(lines) {
  return el("ul", { className: "meaning" }, ...lines.map(({ sign, text: words }) => el("li", {}, el("span", { className: `sign ${sign === "-" ? "bad-text" : sign === "+" ? "good-text" : "warn-text"}` }, sign), el("span", {}, words))));
}
