// From an edited text to one that only tries it: what is new counts in shadow, and what was changed stays as it is and
// gets a copy beside it, `NAME-trial`, that counts in shadow. It is text to text, so that whoever pushes it sees it first.

/** The items of `rules:` in one document: `{ head, items: [{ name, lines }], tail }`, or `null`. */
function split(text) {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => /^rules:\s*(#.*)?$/.test(line));
  if (start < 0) return null;
  let end = lines.findIndex((line, index) => index > start && /^[^\s#-]/.test(line));
  if (end < 0) end = lines.length;
  // Empty lines at the end belong to what follows.
  while (end > start + 1 && lines[end - 1].trim() === "") end -= 1;
  const items = [];
  let indent = null;
  for (const line of lines.slice(start + 1, end)) {
    const dash = /^(\s*)-\s/.exec(line);
    if (dash && (indent === null || dash[1].length === indent)) {
      indent = dash[1].length;
      items.push({ lines: [line] });
    } else if (items.length) items.at(-1).lines.push(line);
    else return null;
  }
  for (const item of items) item.name = nameOf(item.lines);
  if (items.some(({ name }) => name === null)) return null;
  return { head: lines.slice(0, start + 1), items, tail: lines.slice(end) };
}

const NAME = /(^|[\s{,-])name:(\s*)("[^"]*"|'[^']*'|[^\s,}#]+)/;

function nameOf(lines) {
  for (const line of lines) {
    const found = NAME.exec(line);
    if (found) return found[3].replace(/^["']|["']$/g, "");
  }
  return null;
}

function inShadow(lines, name) {
  const made = lines.filter((line) => !/^\s*shadow:/.test(line)).map((line) => line.replace(/,\s*shadow:\s*(true|false)/, ""));
  const named = made.findIndex((line) => NAME.test(line));
  made[named] = made[named].replace(NAME, (_, before, space) => `${before}name:${space}${name}`);
  const flow = made.findLastIndex((line) => line.includes("}"));
  if (/^\s*-\s*\{/.test(made[0]) && flow >= 0) {
    const at = made[flow].lastIndexOf("}");
    made[flow] = `${made[flow].slice(0, at).trimEnd()}, shadow: true ${made[flow].slice(at)}`;
  } else {
    const column = /^(\s*-\s+)/.exec(made[0])[1].length;
    made.splice(1, 0, `${" ".repeat(column)}shadow: true`);
  }
  return made;
}

/** The text that tries `after` beside `before`, and which rules it tries; `null` when no rule differs. */
export function trial(before, after) {
  const [old, wanted] = [split(before), split(after)];
  if (!wanted) return null;
  const known = new Map((old?.items ?? []).map((item) => [item.name, item]));
  const tried = [];
  const made = (lines, name) => {
    tried.push(name);
    return { name, lines: inShadow(lines, name), isMade: true };
  };
  const items = wanted.items.flatMap((item) => {
    const was = known.get(item.name);
    if (!was) return [made(item.lines, item.name)];
    if (was.lines.join("\n").trim() === item.lines.join("\n").trim()) return [item];
    const name = `${item.name.replace(/-trial$/, "")}-trial`;
    return name === item.name ? [made(item.lines, name)] : [was, made(item.lines, name)];
  });
  if (!tried.length) return null;
  // A trial that was there before gives way to the new one of its name.
  const kept = items.filter(({ name, isMade }) => isMade || !tried.includes(name));
  const text = [...wanted.head, ...kept.flatMap(({ lines }) => lines), ...wanted.tail].join("\n");
  return { text, tried };
}
