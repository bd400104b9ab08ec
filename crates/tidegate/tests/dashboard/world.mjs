// A node of one of two regions that share a rate: the other region, how far it is behind, and parts of the rate that
// follow demand. With TIDEGATE_SCREENSHOTS, a folder, pictures of it are left there for people to look at.
const [api, other] = more;
const RATE = 100;
const body = { namespace: "shared", identifier: "tenant-7", rate_per_s: RATE, burst: RATE, cost: 10 };
const pictures = process.env.TIDEGATE_SCREENSHOTS;

/** So many requests a second until it is stopped: one at a time, as another process can't be hurried. */
function load(address, perSecond) {
  const running = { stops: false, failed: 0 };
  const go = async () => {
    while (!running.stops) {
      await json(`${address}/v1/limit`, body).catch(() => (running.failed += 1));
      await new Promise((resolve) => setTimeout(resolve, 1000 / perSecond));
    }
  };
  running.ended = go();
  return running;
}

const rows = (page, caption) => page.locator(`#tiers table:has(caption:text-is("${caption}")) tbody tr`).allInnerTexts();

async function showsRegionsAndParts(page) {
  await page.goto(`${url}/#/tiers`);
  const regions = await until("both regions", async () => {
    const found = await rows(page, "Regions");
    return found.length === 2 && found.every((row) => /active/.test(row)) && found;
  }, 60_000);
  assert.match(regions.find((row) => row.startsWith("here")), /here \(this one\)/);
  assert.match(regions.find((row) => row.startsWith("there")), /\d/, "how far it is behind");
  const [part] = await until("a part that is larger than half", async () => {
    const found = await rows(page, "Parts of limits");
    const larger = found.filter((row) => Number(/(\d+) of 100/.exec(row)?.[1]) > RATE / 2);
    return larger.length > 0 && larger;
  }, 60_000);
  assert.match(part, /\d+(\.\d+)? %/, part);
  assert.match(await page.innerText("#tiers"), /This node works for the region; the database's breaker is closed/);
  return part;
}

async function saysSoAtAGlance(page) {
  await page.goto(`${url}/#/overview`);
  const tier = page.locator("a.tier", { hasText: "Other regions" });
  await until("the tier", async () => /2 regions, heard .* ago; this node is the region's worker/.test(await tier.innerText()));
  assert.equal(await tier.getAttribute("data-health"), "good");
}

/** Whom the region's part denied is told so. */
async function explains(page) {
  await page.goto(`${url}/#/why?namespace=shared`);
  await until("the cause", async () => /part of the limit was in use/.test(await page.innerText("#view-why")));
}

async function fits() {
  for (const theme of ["light", "dark"]) {
    for (const width of [1280, 400]) {
      const page = await open({ theme, width });
      await isLive(page);
      for (const view of ["overview", "tiers", "why?namespace=shared"]) {
        const name = view.split("?")[0];
        await page.goto(`${url}/#/${view}`);
        await page.waitForSelector(`#view-${name}:not([hidden])`);
        if (name === "why") await page.waitForSelector("article.decision");
        await isLive(page);
        const [wide, whole] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(wide <= whole, `${name} at ${width} px is ${wide} px wide`);
        assert.deepEqual(await barriers(page), [], `${name}, ${theme}, ${width} px`);
        if (pictures) await page.screenshot({ path: `${pictures}/${name}-${width}-${theme}.png`, fullPage: true });
      }
      await page.context().close();
    }
  }
}

await run(async () => {
  const loads = [load(api, 20), load(other, 1)];
  try {
    const page = await open();
    await isLive(page);
    await showsRegionsAndParts(page);
    await saysSoAtAGlance(page);
    await explains(page);
    await fits();
    assert.deepEqual(page.seen.complaints, []);
  } finally {
    loads.forEach((running) => (running.stops = true));
    await Promise.all(loads.map(({ ended }) => ended));
  }
});
