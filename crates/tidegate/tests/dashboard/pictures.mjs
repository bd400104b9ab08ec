// The pictures of README and docs, of a real node with a store, a control plane and callers: `cargo xtask pictures` lets
// it run longer, so that there is more to see. Also a test: every picture has something in it.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const [api, store, folder, seconds] = more;
const SECONDS = Number(seconds);
const WIDTH = 1280;
/** Callers with what they send a second. */
const CALLERS = [["alice", "/search", 9], ["bob", "/search", 4], ["carol", "/orders", 6], ["acme-eu", "/orders", 14], ["mallory", "/login", 7], ["dave", "/orders", 3]];

/** So many requests a second, a little more and less, until it is stopped. */
function load() {
  const running = { stops: false };
  const began = Date.now();
  const one = async (user, endpoint, perSecond) => {
    while (!running.stops) {
      await json(`${api}/v1/check`, { namespace: "api", attributes: { user, endpoint } }).catch(() => {});
      const swing = 1 + 0.6 * Math.sin((Date.now() - began) / 9000 + perSecond);
      await new Promise((resolve) => setTimeout(resolve, 1000 / (perSecond * swing)));
    }
  };
  running.ended = Promise.all(CALLERS.map((caller) => one(...caller)));
  return running;
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function picture(page, view, name, ready) {
  await page.goto(`${url}/#/${view}`);
  await page.waitForSelector(`#view-${view.split("?")[0]}:not([hidden])`);
  await until(`${name} to be ready`, ready);
  // Only of what has happened: a quarter of an hour would be empty but for its end.
  await page.evaluate(async (seconds) => {
    const { past, zoomTo } = await import("/dashboard/past.js");
    zoomTo([past.endMs() - seconds * 1000, past.endMs()]);
  }, Math.max(SECONDS, 5));
  await pause(500);
  // As much as says what the view is for.
  const height = { overview: 900, charts: 1280, why: 1180, rules: 1560 }[view];
  const bytes = await page.screenshot({ path: `${folder}/dashboard-${name}.png`, fullPage: true, clip: { x: 0, y: 0, width: WIDTH, height } });
  assert.ok(bytes.length > 20_000, `${name} is nearly empty: ${bytes.length} bytes`);
}

await run(async () => {
  const running = load();
  try {
    await pause((SECONDS * 1000) / 2);
    // The store is away for a while.
    await promisify(execFile)("redis-cli", ["-u", store, "client", "pause", String(Math.max(600, SECONDS * 80))]);
    await pause((SECONDS * 1000) / 2);
    for (const [theme, views] of [["light", ["overview", "charts", "why", "rules"]], ["dark", ["overview"]]]) {
      const page = await open({ width: WIDTH, theme });
      await isLive(page);
      const has = (selector, words) => async () => (await page.innerText(selector)).includes(words);
      const ready = { overview: async () => /[1-9]/.test(await page.innerText("#f-denied")) && (await has("#denied-now", "mallory")()), charts: has("#charts", "search · api"), why: has("#why-result", "mallory"), rules: has("#rules-overrides", "acme-*") };
      for (const view of views) await picture(page, view, theme === "light" ? view : `${view}-${theme}`, ready[view]);
      assert.deepEqual(page.seen.complaints, []);
      await page.context().close();
    }
  } finally {
    running.stops = true;
    await running.ended;
  }
});
