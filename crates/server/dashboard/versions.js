// The versions of the rules: what each changed, and the way back to one.

import { ask } from "./ask.js";
import { el, emptyState, setHidden, setText, table } from "./element.js";
import { moment, plural } from "./words.js";
import { differenceView } from "./difference.js";
import { meaning } from "./editor.js";
import { overrideWords, who } from "./overrides.js";

const ROWS_MAX = 200;

/** Returns what shows them for a caller who may or may not change rules. */
export function makeVersions(parent, announce, changed) {
  const body = el("div");
  const older = el("button", { type: "button", className: "quiet", hidden: true }, "Show older versions");
  const detail = el("div", { className: "stack", tabIndex: -1 });
  parent.replaceChildren(el("section", { className: "card", "aria-labelledby": "h-history" }, el("h2", { id: "h-history" }, "History"), body, older, detail));
  let rows = [];
  let head = 0;
  let may = false;
  const fill = table(body, {
    caption: "Versions of the rules", key: ({ version }) => version,
    empty: emptyState("No version yet, or the control plane can't be asked."),
    columns: [
      { title: "Version", className: "version", cell: (cell, { version }) => setText(cell, version) },
      { title: "Why, who and when", cell: whyCell },
      { title: "Open", className: "act", cell: openCell },
    ],
  });

  function openCell(cell, entry) {
    if (!cell.firstChild) {
      const button = el("button", { type: "button", className: "quiet" }, "Open");
      button.addEventListener("click", () => void open(button.version));
      cell.append(button);
    }
    cell.firstChild.version = entry.version;
    cell.firstChild.setAttribute("aria-label", `Open version ${entry.version}`);
  }

  const problem = (error) => detail.replaceChildren(el("div", { className: "problem", role: "alert" }, `${error.message}. ${error.fix ?? ""}`));

  async function open(version) {
    try {
      const entry = await ask(`/v1/control/version?version=${version}`);
      const close = el("button", { type: "button", className: "quiet" }, "Close");
      close.addEventListener("click", () => detail.replaceChildren());
      const back = el("button", { type: "button", className: "quiet" }, `Roll back to version ${version}`);
      back.addEventListener("click", () => void review(version));
      setHidden(back, !may || version >= head);
      detail.replaceChildren(
        el("h3", {}, `Version ${version}: ${entry.reason || "no reason given"}`),
        el("p", { className: "note" }, `${entry.author}, ${moment(entry.at_us / 1000)} UTC`),
        ...entry.changed.map(changeView), el("div", { className: "row" }, back, close));
      detail.focus();
    } catch (error) {
      problem(error);
    }
  }

  /** What going back would mean, before anything is changed. */
  async function review(version) {
    const asked = { version, if_version: head };
    try {
      const would = await ask("/v1/control/rollback", { ...asked, dry_run: true });
      if (!would.changes) return detail.replaceChildren(el("div", { className: "problem good" }, `The rules are already as they were at version ${version}.`));
      const reason = el("input", { id: "rollback-reason", maxLength: 200, placeholder: "what it is for, for those who read the history", autocomplete: "off" });
      const button = el("button", { type: "submit", className: "main" }, `Roll back to version ${version}`);
      const cancel = el("button", { type: "button", className: "quiet" }, "Cancel");
      cancel.addEventListener("click", () => void open(version));
      const form = el("form", { className: "row" }, el("label", { for: "rollback-reason", className: "grow" }, "Reason ", reason), button, cancel);
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        button.disabled = true;
        try {
          const made = await ask("/v1/control/rollback", { ...asked, reason: reason.value.trim() });
          const told = `Version ${made.version} is stored: the rules are as they were at version ${version}.`;
          detail.replaceChildren(el("div", { className: "problem good", role: "status" }, told));
          announce(told);
          changed();
        } catch (error) {
          problem(error);
        }
      });
      detail.replaceChildren(el("h3", {}, `Back to version ${version}: what it means`), meaning(would.lines), ...would.documents.map(({ namespace, before, after }) => el("div", {}, el("h3", {}, `Lines of ${namespace}`), differenceView(before ?? "", after ?? ""))), form);
      reason.focus();
    } catch (error) {
      problem(error);
    }
  }

  older.addEventListener("click", async () => {
    try {
      const { history } = await ask(`/v1/control/history?limit=20&before=${rows.at(-1).version}`);
      rows = [...rows, ...history].slice(0, ROWS_MAX);
      fill(rows);
      setHidden(older, history.length < 20 || rows.length >= ROWS_MAX);
    } catch (error) {
      problem(error);
    }
  });

  return (state, known) => {
    setHidden(parent, !known);
    may = state.caller?.may_change ?? false;
    if (!known) return;
    head = known.version;
    const isFirst = rows.length === 0;
    const news = known.history;
    // What somebody had unfolded stays.
    rows = [...news, ...rows.filter(({ version }) => news.length && version < news.at(-1).version)].slice(0, ROWS_MAX);
    fill(rows);
    if (isFirst) setHidden(older, news.length < 20);
  };
}

function whyCell(cell, { reason, author, at_us: at, changes }) {
  if (!cell.firstChild) cell.append(el("span"), el("span", { className: "second" }));
  setText(cell.firstChild, reason || "no reason given");
  setText(cell.lastChild, `${author}, ${moment(at / 1000)} UTC, ${plural(changes, "change")}`);
}

/** One change of a version, before and after. */
function changeView({ before, after }) {
  if (after.document) return el("div", {}, el("h3", {}, `Lines of ${after.document.namespace}`), differenceView(before?.document?.text ?? "", after.document.text ?? ""));
  const lines = [["-", before], ["+", after]].flatMap(([sign, side]) => {
    const words = wordsOf(side);
    return words ? [{ sign, text: words }] : [];
  });
  return meaning(lines);
}

function wordsOf(side) {
  if (side?.override) return side.override.removed ? "" : `override of ${side.override.rule} in ${side.override.namespace} for ${who(side.override)}: ${overrideWords(side.override)}`;
  if (side?.fleet_mode) return `mode of the fleet: ${side.fleet_mode}`;
  if (side?.reset) return side.reset.epoch ? `${who(side.reset)} started afresh under ${side.reset.rule}` : "";
  return "";
}
