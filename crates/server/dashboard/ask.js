// Asking the node: one place that knows the token, the deadline and what an error looks like.
// The token lives in this tab only, and is sent to nobody but the node that served the page.

const TOKEN = "tidegate-token";
const ANSWER_WITHIN_MS = 8000;

export class AskError extends Error {
  constructor(status, error) {
    super(error.message ?? `the node answered ${status}`);
    this.status = status;
    this.code = error.code ?? "";
    this.fix = error.fix ?? "";
    /** Whatever else the answer had, such as `errors` or `lines`. */
    this.more = error;
  }
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export function useToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

/** JSON from a path of this node; throws an `AskError`, or a `TypeError` when nobody answers. */
export async function ask(path, body, method = body === undefined ? "GET" : "POST") {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
  });
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new AskError(response.status, { message: "the answer isn't JSON" });
  }
  if (!response.ok) throw new AskError(response.status, answer.error ?? {});
  return answer;
}

/** `?a=1&b=2` of what isn't empty. */
export function query(fields) {
  const given = Object.entries(fields).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
