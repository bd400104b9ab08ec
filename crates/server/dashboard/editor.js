// The editor of a namespace's rules: change the text, see what it means, say why, push. Nothing is pushed that wasn't
// shown first.

import { ask } from "./ask.js";
import { codeArea } from "./code.js";
import { el, setHidden } from "./element.js";
import { differenceView } from "./difference.js";
import { trial } from "./trial.js";

const TEMPLATE = "namespace: api\nrules:\n  - name: per-user\n    key: [user]\n    limit: 100 per 1m\n";
const NEW = "new";

/** The editor; returns what shows it for a caller who may or may not change rules. */
export function makeEditor(parent, announce, changed) {
  /** The texts that the edit began from, and their version. */
  let base = { version: 0, documents: [] };
  let chosen = "";
  let isLoading = false;
  const choice = el("select", { id: "editor-namespace" });
  const code = codeArea({ id: "editor-text", describedBy: "editor-hint" });
  const { area } = code;
  const review = el("button", { type: "button", className: "main" }, "Review the change");
  const tryIt = el("button", { type: "button", className: "quiet" }, "Try as shadow");
  const reload = el("button", { type: "button", className: "quiet" }, "Start over");
  const outcome = el("div", { className: "stack" });
  const hint = el("p", { id: "editor-hint", className: "note" });
  const body = el("div", { className: "stack" }, el("div", { className: "row" }, el("label", { for: "editor-namespace" }, "Namespace ", choice)), el("label", { for: "editor-text" }, "Its rules, as YAML; overrides stay as they are"), code.element, hint, el("div", { className: "row" }, review, tryIt, reload), outcome);
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
      if (!keepText) code.set(chosen === NEW ? TEMPLATE : current());
      hint.textContent = `You are editing version ${base.version}. Tab indents; Escape and then Tab leaves the text.`;
      return true;
    } catch (error) {
      say(note("", `${error.message}. ${error.fix ?? ""}`));
      return false;
    } finally {
      isLoading = false;
    }
  }

  const push = (words, more) => ask("/v1/control/rules", { files: [{ name: "rules.yaml", text: words }], keep_overrides: true, if_version: base.version, ...more });

  /** One click away from its place in the text. */
  function mistake(line, column, words) {
    const go = el("button", { type: "button", className: "link" }, `Line ${line}, column ${column}`);
    go.addEventListener("click", () => code.select(line, column));
    return el("li", {}, go, `: ${words}`);
  }

  function refused(error, words) {
    if (error.code === "conflict") return conflict(error);
    const errors = error.more?.errors ?? [];
    const list = errors.length ? el("ul", {}, ...errors.map(({ line, column, message, fix }) => mistake(line, column, `${message}; ${fix}`))) : ` ${error.fix ?? ""}`;
    if (errors.length && words === area.value) code.mark(errors);
    return say(note("", errors.length ? "Nothing was stored: the rules have mistakes." : `${error.message}.`, list));
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
    code.set(chosen === NEW ? TEMPLATE : current());
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

export function meaning(lines) {
  return el("ul", { className: "meaning" }, ...lines.map(({ sign, text: words }) => el("li", {}, el("span", { className: `sign ${sign === "-" ? "bad-text" : sign === "+" ? "good-text" : "warn-text"}` }, sign), el("span", {}, words))));
}
