// Who comes most often and who is denied most, each one click away from the reason.

import { byId, el, emptyState, setAttribute, setHidden, setText, table } from "./element.js";
import { rate } from "./words.js";
import { live } from "./live.js";
import { query } from "./ask.js";

/** To the reason of a caller's denials. */
export const whyOf = ({ identifier, rule, namespace }) => `#/why${query({ identifier, rule, namespace })}`;

/** A command that makes a denial, for whoever sees an empty page. */
export function tryThis() {
  const listens = live.state?.http_url;
  if (!listens) return "";
  const url = new URL(listens);
  // A node that listens everywhere is asked where its page was found.
  if (/^(0\.0\.0\.0|\[::\])$/.test(url.hostname)) url.hostname = location.hostname;
  const body = JSON.stringify({ namespace: "demo", identifier: "me", limit: 5, duration_ms: 60000 });
  return `for i in 1 2 3 4 5 6 7; do curl -s ${url.origin}/v1/limit -d '${body}'; done`;
}

const nameCell = (cell, caller) => {
  if (!cell.firstChild) cell.append(el("span", { className: "clamped" }), el("span", { className: "mark", hidden: true }), el("span", { className: "second" }));
  const [name, mark, second] = cell.children;
  setText(name, caller.identifier || "(one for all)");
  setAttribute(name, "title", caller.identifier);
  setHidden(mark, !caller.hot && !caller.leased);
  setText(mark, caller.leased ? "leased" : "hot");
  const tenant = caller.tenant === "default" ? "" : ` · ${caller.tenant}`;
  setText(second, `${caller.rule || "limit in the request"} · ${caller.namespace}${tenant}`);
};

const numberCell = (name, className) => (cell, caller) => {
  setText(cell, rate(caller[name]));
  cell.classList.toggle("denied-text", className && caller[name] > 0);
};

const whyCell = (cell, caller) => {
  if (!cell.firstChild) cell.append(el("a", {}, "Why?"));
  const link = cell.firstChild;
  setAttribute(link, "href", whyOf(caller));
  setAttribute(link, "aria-label", `Why was ${caller.identifier || "this caller"} denied by ${caller.rule || "its limit"}?`);
};

/** A table of callers; `fill(callers)`. */
export function callerTable(parent, caption, empty, [title, field] = ["Denied/s", "denied_per_second"]) {
  return table(parent, {
    caption,
    key: ({ tenant, namespace, rule, identifier }) => JSON.stringify([tenant, namespace, rule, identifier]),
    hold: true,
    empty,
    columns: [
      { title: "Caller", cell: nameCell },
      { title: "Requests/s", className: "number wide", cell: numberCell("per_second") },
      { title, className: "number", cell: numberCell(field, true) },
      { title: "Reason", className: "act", cell: whyCell },
    ],
  });
}

export function callers() {
  const filter = byId("caller-filter");
  const none = (words) => emptyState(words, tryThis);
  const denied = callerTable(byId("callers-denied"), "Callers that are denied most", none("Nobody is denied now. To see it happen:"));
  const busiest = callerTable(byId("callers-busiest"), "The busiest callers", none("No request yet. Try this:"));
  const would = callerTable(byId("callers-would"), "Callers that shadow rules would deny", null, ["Would deny/s", "would_deny_per_second"]);
  let last = null;
  const show = (live) => {
    last = live;
    if (!live.top) return;
    const wanted = filter.value.trim().toLowerCase();
    const fits = (caller) => [caller.identifier, caller.rule, caller.namespace, caller.tenant].some((text) => text.toLowerCase().includes(wanted));
    denied(live.top.denied.filter(fits));
    busiest(live.top.busiest.filter(fits));
    const shadowed = (live.top.would_deny ?? []).filter(fits);
    setHidden(byId("callers-would").parentElement, shadowed.length === 0);
    would(shadowed);
  };
  filter.addEventListener("input", () => last && show(last));
  return { show };
}
