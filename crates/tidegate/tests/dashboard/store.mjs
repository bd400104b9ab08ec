// A node whose store dies: the page says so in plain words, goes on, and shows since when.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const [api, store] = more;
const check = (user) => json(`${api}/v1/check`, { namespace: "api", attributes: { user } });

await run(async () => {
  const page = await open();
  await isLive(page);
  const tier = page.locator("a.tier", { hasText: "Region's store" });
  await until("a healthy store", async () => (await check("ann"), /Healthy/.test(await tier.innerText())));
  assert.equal(await tier.getAttribute("data-health"), "good");
  await page.goto(`${url}/#/charts`);
  const told = (name) => page.getByRole("slider", { name, exact: true }).getAttribute("aria-valuetext");
  await until("an ask", async () => (await check(`user-${Date.now()}`), /cold [\d.]+\/s/.test(await told("Asks of the store"))));
  // It has no answer to give.
  await promisify(execFile)("redis-cli", ["-u", store, "shutdown", "nosave"]).catch(() => {});
  await page.goto(`${url}/#/overview`);
  // Nobody asks: the heartbeats tell, before any breaker opens.
  await until("a store that is away", async () => /Unavailable/.test(await tier.innerText()));
  assert.equal(await tier.getAttribute("data-health"), "bad");
  assert.match(await tier.innerText(), /Requests are decided by what this node knows/);
  await until("the chart", async () => /store away/.test(await page.innerText("#overview-chart .readout")));
  await check("bob");
  await page.goto(`${url}/#/charts`);
  await until("all charts", async () => /store away/.test(await told("Decisions")));
  await page.goto(`${url}/#/tiers`);
  const shard = page.locator("#tiers tbody tr").first();
  await until("the shard, with the connection's words", async () => /Unavailable: .*(not connected|refused)/i.test(await shard.innerText()));
  assert.equal(await shard.locator(".good-text").count(), 0, "nothing about it is shown as good");
  for (const view of ["overview", "charts", "tiers"]) {
    await page.goto(`${url}/#/${view}`);
    assert.deepEqual(await barriers(page), [], view);
  }
  assert.deepEqual(page.seen.complaints, []);
});
