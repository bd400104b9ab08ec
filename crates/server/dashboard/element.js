// Elements: made once, changed only where something changed, so that nothing moves, loses focus or piles up.

/** `el("p", { className: "note" }, "text", child)`; properties that start with `aria` or `data` become attributes. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (/^(aria|data)-|^(role|for|scope|colspan)$/.test(name)) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

export const byId = (id) => document.getElementById(id);

export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function setHidden(element, isHidden) {
  if (element.hidden !== isHidden) element.hidden = isHidden;
}

const known = new WeakMap();

/**
 * Brings a parent's children in line with `items`: each has a key, is made once and then only updated.
 * With `hold`, rows keep their order while somebody points at them or has the focus among them.
 */
export function each(parent, items, { key, make, update, hold = false }) {
  const old = known.get(parent) ?? new Map();
  let order = items.map((item, index) => [String(key(item, index)), item]);
  if (hold && (parent.matches(":hover") || parent.contains(document.activeElement))) {
    const fresh = new Map(order);
    const held = [...old.keys()].filter((name) => fresh.has(name)).map((name) => [name, fresh.get(name)]);
    order = [...held, ...order.filter(([name]) => !old.has(name))];
  }
  const next = new Map();
  let before = parent.firstChild;
  for (const [name, item] of order) {
    if (next.has(name)) continue;
    const element = old.get(name) ?? make(item);
    old.delete(name);
    update?.(element, item);
    next.set(name, element);
    if (element === before) before = before.nextSibling;
    else parent.insertBefore(element, before);
  }
  while (before) {
    const gone = before;
    before = before.nextSibling;
    gone.remove();
  }
  known.set(parent, next);
}

/**
 * A real table. `columns`: `{ title, className, cell(td, item) }`; the first one's cells are row headers.
 * Returns `fill(items)`; `empty` is a node that is shown when there are none.
 */
export function table(parent, { caption, columns, key, hold, empty }) {
  const body = el("tbody");
  const head = el("tr", {}, ...columns.map(({ title, className }) => el("th", { scope: "col", className }, title)));
  const whole = el("table", {}, el("caption", { className: "unseen" }, caption), el("thead", {}, head), body);
  parent.replaceChildren(whole, ...(empty ? [empty] : []));
  const make = () =>
    el("tr", {}, ...columns.map(({ className }, index) => (index ? el("td", { className }) : el("th", { scope: "row", className }))));
  const update = (row, item) => columns.forEach(({ cell }, index) => cell(row.children[index], item));
  return (items) => {
    each(body, items, { key, make, update, hold });
    setHidden(whole, items.length === 0);
    if (!empty) return;
    setHidden(empty, items.length > 0);
    if (!items.length) empty.refresh?.();
  };
}

/** What to do when there is nothing yet: a sentence, and a command to copy, which may be known only later. */
export function emptyState(sentence, commandOf) {
  const empty = el("div", { className: "empty" }, el("p", {}, sentence));
  empty.refresh = () => {
    const command = commandOf?.();
    if (command && empty.childElementCount === 1) empty.append(copied(command));
  };
  empty.refresh();
  return empty;
}

/** A command with a button that copies it. */
export function copied(command) {
  const code = el("code", {}, command);
  return el("div", { className: "command" }, code, copyButton(() => code.textContent, "Copy the command"));
}

export function copyButton(textOf, label) {
  const button = el("button", { type: "button", className: "quiet", "aria-label": label }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copy(textOf())) ? "Copied" : "Select it";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without TLS on another machine's address there is no clipboard: the old way still works.
    const area = el("textarea", { value: text, className: "unseen" });
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    return isDone;
  }
}

export function setAttribute(element, name, value) {
  const wanted = String(value);
  if (element.getAttribute(name) !== wanted) element.setAttribute(name, wanted);
}
