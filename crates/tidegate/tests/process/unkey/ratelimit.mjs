// npm's @unkey/ratelimit, and @unkey/api for what it lacks (multiLimit), against a node: only the base URL differs
// from what their users write. Windows are 30 days long, so that a run hardly ever meets the end of one.
import assert from "node:assert/strict";
import { Overrides, Ratelimit } from "@unkey/ratelimit";
import { Unkey } from "@unkey/api";

const baseUrl = process.argv[1];
const rootKey = "unkey_anything";
const duration = "30d";
const month = 30 * 24 * 3600 * 1000;

// Without a fallback, which would answer in the place of an error or of a node that doesn't.
const limiter = (namespace, limit, more = {}) =>
  new Ratelimit({ baseUrl, rootKey, namespace, limit, duration, timeout: false, ...more });

// Limits and denials.
const login = limiter("auth.login", 3);
for (const remaining of [2, 1, 0]) {
  const passed = await login.limit("user_1");
  assert.deepEqual([passed.success, passed.limit, passed.remaining], [true, 3, remaining]);
  assert.ok(passed.reset > Date.now() && passed.reset <= Date.now() + month, passed.reset);
  assert.equal(passed.overrideId, undefined);
}
const denied = await login.limit("user_1");
assert.deepEqual([denied.success, denied.limit, denied.remaining], [false, 3, 0]);
assert.ok(denied.reset > Date.now(), denied.reset);
assert.equal((await login.limit("user_2")).success, true, "another is another");

// Costs, and numbers for one call.
const heavy = limiter("api.heavy", 10);
assert.equal((await heavy.limit("u", { cost: 7 })).remaining, 3);
assert.equal((await heavy.limit("u", { cost: 0 })).remaining, 3);
assert.equal((await heavy.limit("u", { limit: { limit: 20, duration } })).remaining, 12);
assert.equal((await limiter("api.heavy", 10).limit("u", { cost: 3 })).success, false);

// A window that is short enough to wait for: at `reset`, and not only some time after it, it passes.
const short = { limit: { limit: 5, duration: "1s" } };
const quick = limiter("api.quick", 5, { cache: { get() {}, set() {}, delete() {} } });
let until;
do until = await quick.limit("u", short);
while (until.success);
await new Promise((resolve) => setTimeout(resolve, until.reset - Date.now() + 1));
assert.equal((await quick.limit("u", short)).success, true);

// Several at once, all or none.
const unkey = new Unkey({ serverURL: baseUrl, rootKey });
const both = [
  { namespace: "both", identifier: "wide", limit: 10, duration: month, cost: 2 },
  { namespace: "both", identifier: "narrow", limit: 1, duration: month },
];
const first = await unkey.ratelimit.multiLimit(both);
assert.ok(first.meta.requestId);
assert.deepEqual([first.data.passed, ...first.data.limits.map((one) => one.remaining)], [true, 8, 0]);
const second = await unkey.ratelimit.multiLimit(both);
assert.deepEqual([second.data.passed, ...second.data.limits.map((one) => one.passed)], [false, true, false]);
assert.equal(second.data.limits[0].remaining, 8);

// Overrides.
const overrides = new Overrides({ baseUrl, rootKey });
const namespace = "api.requests";
const requests = limiter(namespace, 10);
const set = (identifier, limit) => overrides.setOverride({ namespace, identifier, limit, duration: month });
const { data: premium } = await set("premium_*", 1000);
assert.match(premium.overrideId, /^ovr_/);
const allowed = await requests.limit("premium_7");
assert.deepEqual([allowed.limit, allowed.remaining, allowed.overrideId], [1000, 999, premium.overrideId]);
assert.equal((await requests.limit("basic_7")).limit, 10);
assert.equal((await set("premium_*", 500)).data.overrideId, premium.overrideId);
assert.equal((await requests.limit("premium_7")).remaining, 498, "what was used stays used");
assert.deepEqual((await overrides.getOverride({ namespace, identifier: "premium_*" })).data, {
  overrideId: premium.overrideId,
  identifier: "premium_*",
  limit: 500,
  duration: month,
});
await set("mallory", 0);
assert.equal((await requests.limit("mallory")).success, false, "0 blocks");
for (let number = 0; number < 12; number++) await set(`list_${number}`, number);
const names = [];
let cursor;
do {
  const page = await overrides.listOverrides({ namespace, limit: 5, cursor });
  names.push(...page.data.map((one) => one.identifier));
  cursor = page.pagination?.cursor;
} while (cursor);
assert.equal(new Set(names).size, 14);
assert.equal(names.length, 14);
await overrides.deleteOverride({ namespace, identifier: "premium_*" });
assert.equal((await requests.limit("premium_8")).limit, 10);
const { data: again } = await set("premium_*", 77);
assert.notEqual(again.overrideId, premium.overrideId);
assert.equal((await requests.limit("premium_9")).limit, 77);

// Errors are their own errors, and nothing hides them.
const rejected = async (promise) => {
  const error = await promise.then((value) => assert.fail(JSON.stringify(value)), (error) => error);
  return [error.name, error.statusCode, error.error?.type ?? error.data$?.error.type, error];
};
const [name, status, type, bad] = await rejected(requests.limit("x", { limit: { limit: 10, duration: "1ms" } }));
assert.deepEqual([name, status], ["BadRequestErrorResponse", 400]);
assert.equal(type, "https://unkey.com/docs/errors/unkey/application/invalid_input");
assert.equal(bad.data$.error.errors[0].location, "body.duration");
assert.ok(bad.data$.meta.requestId);
const missing = await rejected(overrides.getOverride({ namespace, identifier: "nobody" }));
assert.deepEqual(missing.slice(0, 3), [
  "NotFoundErrorResponse",
  404,
  "https://unkey.com/docs/errors/unkey/data/ratelimit_override_not_found",
]);
const gone = await rejected(overrides.deleteOverride({ namespace, identifier: "nobody" }));
assert.deepEqual(gone.slice(0, 2), ["NotFoundErrorResponse", 404]);
let heard;
const onError = (error) => ((heard = error), { success: true, limit: 0, remaining: 0, reset: 0 });
assert.equal((await limiter(namespace, 0, { onError }).limit("x")).success, true);
assert.match(heard.message, /limit/);

console.log("fine");
