// Overrides: other numbers for single callers, as a table that can be searched, and a form that sets one.

import { ask, query } from "./ask.js";
import { el, emptyState, setHidden, setText, table } from "./element.js";
import { count, moment, plural } from "./words.js";

/** More aren't loaded: the command line lists them all. */
const LOADED_MAX = 10_000;
const SHOWN_MAX = 100;
const NS = { s: 1e9, min: 60e9, h: 3600e9, day: 86_400e9 };

export const who = ({ key }) => key.map((part) => (part === "" ? "(empty)" : part)).join(", ");

/** `{ count, per_ns }` as `100 per 1 min`: in the shortest unit that makes it whole. */
function rateText({ count: number, per_ns: ns }) {
  const unit = Object.keys(NS).find((name) => Number.isInteger((number * NS[name]) / ns));
  return unit ? `${(number * NS[unit]) / ns}/${unit}` : `${number}/${ns / 1e6}ms`;
}

export function overrideWords({ limit, rate, unlimited, hot, until }) {
  const change = unlimited ? "unlimited" : limit === 0 ? "blocked" : limit !== undefined ? `limit ${count(limit)}` : rate ? (rate.burst === 0 ? "blocked" : `${rateText(rate)}, burst ${count(rate.burst)}`) : "";
  return [change, hot ? "hot" : "", until ? `until ${moment(Date.parse(until))} UTC` : ""].filter(Boolean).join(", ");
}

const KINDS = [["limit", "a limit"], ["rate", "a rate"], ["unlimited", "no limit"], ["blocked", "blocked"]];

export function makeOverrides(parent, announce, changed) {
  const choice = el("select", { id: "overrides-namespace" });
  const filter = el("input", { id: "overrides-filter", type: "search", maxLength: 200, placeholder: "caller, rule or number", autocomplete: "off", spellcheck: false });
  const add = el("button", { type: "button", className: "main" }, "Add an override");
  const lead = el("p", { className: "note", role: "status" });
  const [body, editing, outcome] = [el("div"), el("div"), el("div")];
  parent.replaceChildren(el("section", { className: "card", "aria-labelledby": "h-overrides" }, el("h2", { id: "h-overrides" }, "Overrides"),
    el("div", { className: "row" }, el("label", { for: "overrides-namespace" }, "Namespace ", choice), el("label", { for: "overrides-filter", className: "grow" }, "Search ", filter), add), editing, outcome, lead, body));
  let namespaces = [];
  let loaded = [];
  let isCut = false;
  let may = false;
  let turn = 0;
  let version = -1;
  const chosen = () => namespaces.find(({ tenant, namespace }) => JSON.stringify([tenant, namespace]) === choice.value);
  const say = (kind, words) => outcome.replaceChildren(words ? el("div", { className: `problem ${kind}`, role: kind === "good" ? "status" : "alert" }, words) : "");
  const fill = table(body, {
    caption: "Overrides", key: ({ rule, key }) => JSON.stringify([rule, key]),
    empty: emptyState("No override here."),
    columns: [
      { title: "Caller and rule", cell: callerCell },
      { title: "Instead", className: "instead", cell: (cell, one) => setText(cell, overrideWords({ ...one, until: undefined })) },
      { title: "Until (UTC)", className: "until wide", cell: untilCell },
      { title: "Change", className: "acts", cell: actCell },
    ],
  });

  function callerCell(cell, one) {
    if (!cell.firstChild) cell.append(el("span", { className: "clamped" }), el("span", { className: "second" }));
    setText(cell.firstChild, who(one));
    cell.firstChild.title = who(one);
    setText(cell.lastChild, one.rule);
  }

  function untilCell(cell, { until }) {
    const at = until ? Date.parse(until) : NaN;
    setText(cell, until ? `${moment(at)}${at < Date.now() ? " (ended)" : ""}` : "no end");
    cell.classList.toggle("soft", !until || at < Date.now());
  }

  function actCell(cell, one) {
    if (!cell.firstChild) {
      const edit = el("button", { type: "button", className: "quiet" }, "Edit");
      const remove = el("button", { type: "button", className: "quiet" }, "Remove");
      edit.addEventListener("click", () => showForm(cell.one));
      remove.addEventListener("click", () => showRemoval(cell.one));
      cell.append(edit, " ", remove);
    }
    cell.one = one;
    cell.firstChild.setAttribute("aria-label", `Edit the override of ${who(one)}`);
    cell.lastChild.setAttribute("aria-label", `Remove the override of ${who(one)}`);
    for (const button of cell.querySelectorAll("button")) setHidden(button, !may);
  }

  function show() {
    const wanted = filter.value.trim().toLowerCase();
    const found = loaded.filter((one) => [who(one), one.rule, overrideWords(one)].some((words) => words.toLowerCase().includes(wanted)));
    const which = wanted ? `${plural(found.length, "override")} of ${count(loaded.length)} found` : plural(loaded.length, "override");
    setText(lead, `${which}${found.length > SHOWN_MAX ? `; the first ${SHOWN_MAX} are shown, search for others` : ""}.${isCut ? ` More than ${count(LOADED_MAX)} aren't loaded: tidegate rules get ${chosen()?.namespace} --overrides lists them all.` : ""}`);
    fill(found.slice(0, SHOWN_MAX));
  }

  async function load() {
    const own = (turn += 1);
    const of = chosen();
    if (!of) return;
    const list = [];
    let after;
    try {
      do {
        const page = await ask(`/v1/control/overrides${query({ tenant: of.tenant, namespace: of.namespace, after })}`);
        if (own !== turn) return;
        list.push(...page.overrides.map(({ override }) => override).filter(Boolean));
        after = page.next;
      } while (after && list.length < LOADED_MAX);
    } catch (error) {
      if (own === turn) say("", `${error.message}. ${error.fix ?? ""}`);
      return;
    }
    isCut = Boolean(after);
    loaded = list.sort((a, b) => who(a).localeCompare(who(b)) || a.rule.localeCompare(b.rule));
    show();
  }

  async function store(method, override, more) {
    const of = chosen();
    try {
      const made = await ask("/v1/control/overrides", { tenant: of.tenant, namespace: of.namespace, override, ...more }, method);
      const told = made.changes ? `Version ${made.version} is stored: ${made.lines.map(({ text }) => text).join("; ")}` : "Nothing changed: it is like that already.";
      editing.replaceChildren();
      say("good", told);
      announce(told);
      changed();
      await load();
    } catch (error) {
      const errors = error.more?.errors ?? [];
      say("", errors.length ? errors.map(({ message, fix }) => `${message}; ${fix}`).join(". ") : `${error.message}. ${error.fix ?? ""}`);
    }
  }

  const reasonField = () => el("input", { id: "override-reason", maxLength: 200, autocomplete: "off", placeholder: "for those who read the history" });
  const cancelButton = () => {
    const cancel = el("button", { type: "button", className: "quiet" }, "Cancel");
    cancel.addEventListener("click", () => {
      editing.replaceChildren();
      add.focus();
    });
    return cancel;
  };

  function showRemoval(one) {
    say("", "");
    const reason = reasonField();
    const form = el("form", { className: "row edge" }, el("p", { className: "grow" }, `Remove the override of ${who(one)} (${one.rule}: ${overrideWords(one)})? The rule's own numbers apply then.`), el("label", { for: "override-reason" }, "Reason ", reason), el("button", { type: "submit", className: "main" }, "Remove it"), cancelButton());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void store("DELETE", { rule: one.rule, key: one.key }, { reason: reason.value.trim() });
    });
    editing.replaceChildren(form);
    reason.focus();
  }

  /** For a new one, or for one that is there, whose name stays. */
  function showForm(one) {
    say("", "");
    const rules = chosen()?.rules ?? [];
    const rule = el("select", { id: "override-rule", disabled: Boolean(one) }, ...rules.map(({ name }) => el("option", { value: name }, name)));
    if (one) rule.value = one.rule;
    const keys = el("div", { className: "contents" });
    const kind = el("select", { id: "override-kind" }, ...KINDS.map(([value, words]) => el("option", { value }, words)));
    const amount = el("input", { id: "override-amount", maxLength: 40, autocomplete: "off", inputMode: "text" });
    const burst = el("input", { id: "override-burst", maxLength: 20, autocomplete: "off", inputMode: "numeric", placeholder: "one second's worth" });
    const until = el("input", { id: "override-until", type: "datetime-local", step: 1 });
    const hot = el("input", { id: "override-hot", type: "checkbox", checked: Boolean(one?.hot) });
    const reason = reasonField();
    const labels = { amount: el("label", { for: "override-amount" }, "Limit ", amount), burst: el("label", { for: "override-burst" }, "Burst ", burst) };
    const ruleOf = () => rules.find(({ name }) => name === rule.value);
    const isRate = () => ruleOf()?.is_rate ?? false;
    const showKind = () => {
      setHidden(labels.amount, !["limit", "rate"].includes(kind.value));
      setHidden(labels.burst, kind.value !== "rate");
      labels.amount.firstChild.textContent = kind.value === "rate" ? "Rate " : "Limit ";
      amount.placeholder = kind.value === "rate" ? "100/s" : "1000";
    };
    const showKeys = () => {
      const names = ruleOf()?.key ?? one?.key?.map((_, index) => `part ${index + 1}`) ?? [];
      keys.replaceChildren(...names.map((name, index) => el("label", { for: `override-key-${index}` }, `${name} `, el("input", { id: `override-key-${index}`, maxLength: 512, autocomplete: "off", spellcheck: false, disabled: Boolean(one), value: one?.key[index] ?? "", placeholder: "exact, or a pattern such as acme-*" }))));
      if (!one) kind.value = isRate() ? "rate" : "limit";
      showKind();
    };
    rule.addEventListener("change", showKeys);
    kind.addEventListener("change", showKind);
    showKeys();
    if (one) {
      kind.value = one.unlimited ? "unlimited" : one.limit === 0 || one.rate?.burst === 0 ? "blocked" : one.rate ? "rate" : "limit";
      amount.value = one.rate ? rateText(one.rate) : (one.limit ?? "");
      burst.value = one.rate?.burst ?? "";
      if (one.until) until.value = new Date(Date.parse(one.until)).toISOString().slice(0, 19);
      showKind();
    }
    const form = el("form", { className: "form edge" }, el("label", { for: "override-rule" }, "Rule ", rule), keys, el("label", { for: "override-kind" }, "Instead ", kind), labels.amount, labels.burst,
      el("label", { for: "override-until" }, "Until, UTC (empty: no end) ", until), el("label", { className: "check", for: "override-hot" }, hot, " comes very often (hot)"), el("label", { for: "override-reason" }, "Reason ", reason),
      el("div", { className: "row" }, el("button", { type: "submit", className: "main" }, one ? "Store it" : "Set it"), cancelButton()));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const override = { rule: rule.value };
      const names = ruleOf()?.key ?? [];
      names.forEach((name, index) => (override[name] = keys.querySelectorAll("input")[index].value));
      const given = amount.value.trim();
      const whole = (text) => (/^[\d_]+$/.test(text) ? Number(text.replaceAll("_", "")) : text);
      if (kind.value === "limit") override.limit = whole(given);
      if (kind.value === "blocked") override.limit = 0;
      if (kind.value === "unlimited") override.unlimited = true;
      if (kind.value === "rate") override.rate = given;
      if (kind.value === "rate" && burst.value.trim()) override.burst = whole(burst.value.trim());
      if (hot.checked) override.hot = true;
      if (until.value) override.until = `${until.value.length === 16 ? `${until.value}:00` : until.value}Z`;
      void store("PUT", override, { reason: reason.value.trim() });
    });
    editing.replaceChildren(form);
    (one ? kind : rule).focus();
  }

  add.addEventListener("click", () => showForm(null));
  filter.addEventListener("input", show);
  choice.addEventListener("change", () => {
    editing.replaceChildren();
    say("", "");
    loaded = [];
    void load();
  });

  return ({ state, rules }) => {
    may = state.caller?.may_change ?? false;
    namespaces = rules?.namespaces ?? [];
    setHidden(add, !may || !namespaces.length);
    const names = namespaces.map(({ tenant, namespace }) => JSON.stringify([tenant, namespace]));
    if (names.join() !== [...choice.options].map(({ value }) => value).join()) {
      const before = choice.value;
      choice.replaceChildren(...namespaces.map(({ tenant, namespace }, index) => el("option", { value: names[index] }, tenant === "default" ? namespace : `${namespace} of ${tenant}`)));
      if (names.includes(before)) choice.value = before;
    }
    // Another version may have other overrides.
    if (state.rule_version !== version && namespaces.length) {
      version = state.rule_version;
      void load();
    }
  };
}
