// A node whose rules come from a file, looked at as an operator would.
const [api] = more;
const check = (user) => json(`${api}/v1/check`, { namespace: "api", attributes: { user } });

/** How much was sent of the page itself, and when something was first painted. */
async function isSmallAndSoonThere() {
  const page = await open();
  await isLive(page);
  const policy = page.answer.headers()["content-security-policy"];
  assert.match(policy, /default-src 'self'/);
  assert.doesNotMatch(policy, /unsafe/);
  const { bytes, files, painted } = await page.evaluate(() => {
    const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    const files = entries.filter(({ name }) => !name.includes("/v1/"));
    const bytes = files.reduce((sum, { transferSize }) => sum + transferSize, 0);
    return { bytes, files: files.length, painted: performance.getEntriesByName("first-contentful-paint")[0].startTime };
  });
  console.error(`${files} files, ${bytes} bytes; first contentful paint after ${Math.round(painted)} ms`);
  assert.ok(files > 10 && bytes > 10_000 && bytes <= 260_000, `${bytes} bytes in ${files} files`);
  assert.ok(painted < 3000, `first contentful paint after ${painted} ms`);
  assert.match(await page.innerText("#view-overview"), /curl/, "an empty page says what to try");
  await page.context().close();
}

/** Whether a chart's canvas has the colour of denials in it. */
const isPainted = (page, selector) => until("a painted chart", () => page.evaluate((selector) => {
  const canvas = document.querySelector(selector);
  if (!canvas?.width) return false;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  // Orange or brown, in both themes: much more red than blue.
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200 && data[at] > data[at + 2] + 80) return true;
  return false;
}, selector));

/** Requests show up without a reload, and a denial leads to its cause. */
async function isLiveAndExplains() {
  const page = await open();
  await isLive(page);
  await page.evaluate(() => (globalThis.isTheSamePage = true));
  for (let request = 0; request < 30; request += 1) await check("mallory-7");
  const row = page.locator("#denied-now tbody tr", { hasText: "mallory-7" });
  const asking = setInterval(() => check("mallory-7").catch(() => {}), 50);
  try {
    await row.waitFor();
    await until("figures", async () => /[1-9]/.test(await page.innerText("#f-denied")));
    await until("the readout", async () => /denied [1-9]/.test(await page.innerText("#overview-chart .readout")));
    assert.ok(await isPainted(page, "#overview-chart canvas"), "the chart has something in it");
    // From the denial to its cause: at most five clicks are allowed, and it takes one.
    await row.getByRole("link", { name: /Why was mallory-7 denied/ }).click();
    const first = page.locator("article.decision").first();
    await first.waitFor();
    assert.match(await first.innerText(), /the limit was in use/);
    assert.match(await first.locator(".sentence").innerText(), /rule per-user of api .* denied a request/);
    assert.ok(await isPainted(page, ".timeline canvas"), "the picture has denials in it");
    assert.match(await page.getAttribute(".timeline", "aria-label"), /denial/);
    await first.getByRole("button", { name: "Copy the sentence" }).click();
    await until("the copy", async () => (await first.getByRole("button").innerText()) !== "Copy");
    // The same from the list of the latest denials.
    await page.getByRole("link", { name: "Overview" }).click();
    await page.locator("#latest tbody tr").first().getByRole("link").click();
    await page.locator("article.decision").first().waitFor();
    assert.match(page.url(), /request_id=[0-9a-f]{16}/);
  } finally {
    clearInterval(asking);
  }
  assert.ok(await page.evaluate(() => globalThis.isTheSamePage), "it was never reloaded");
  assert.deepEqual([...page.seen.hosts], [new URL(url).host]);
  assert.deepEqual(page.seen.complaints, []);
  return page;
}

async function searches(page) {
  await page.goto(`${url}/#/why`);
  const find = async (fields) => {
    for (const name of ["Caller", "Rule", "Namespace", "Request id"]) await page.locator("#why-form").getByLabel(name, { exact: true }).fill(fields[name] ?? "");
    await page.getByLabel("When").selectOption(fields.when ?? "");
    if (fields.at) await page.getByLabel("Around, UTC").fill(fields.at);
    await page.evaluate(() => document.getElementById("why-result").replaceChildren());
    await page.getByRole("button", { name: "Find" }).click();
    await page.waitForSelector("#why-result > *");
    return page.innerText("#why-result");
  };
  assert.match(await find({ Caller: "mallory-7" }), /the limit was in use/);
  assert.match(await find({ Rule: "per-user", Namespace: "api", when: "15m" }), /the limit was in use/);
  assert.match(await find({ when: "at", at: new Date().toISOString().slice(0, 19) }), /the limit was in use/);
  assert.match(await find({ when: "at", at: "2020-01-01T00:00:01" }), /nothing about that/);
  assert.match(await find({ Caller: "nobody" }), /nothing about that/);
  assert.match(await find({ "Request id": "0123456789abcdef" }), /nothing about that/);
}

async function filters(page) {
  await page.goto(`${url}/#/callers`);
  for (let request = 0; request < 20; request += 1) await Promise.all([check("ann"), check("bob")]);
  const names = () => page.locator("#callers-busiest tbody th > span:first-child").allInnerTexts();
  await until("callers", async () => (await names()).includes("ann") && (await names()).includes("bob"));
  await page.getByLabel("Filter").fill("ANN");
  await until("the filter", async () => (await names()).join() === "ann");
}

/** All charts of a node that counts alone: the range, the zoom and the scale are of all of them. */
async function chartsTheRange(page) {
  await page.goto(`${url}/#/charts`);
  await page.getByRole("slider", { name: "Decisions" }).waitFor();
  const told = (name) => page.getByRole("slider", { name, exact: true }).getAttribute("aria-valuetext");
  await until("rules", async () => /per-user · api/.test(await told("By rule")));
  await until("paths", async () => /local/.test(await told("By path")));
  // One in 64 decisions of each thread is timed.
  const many = () => Promise.all(Array.from({ length: 64 }, () => check("zoe")));
  await until("times", async () => (await many(), /p50 .*s, p99 .*, p99\.9/.test(await told("Time to decide"))));
  assert.equal(await page.getByRole("slider", { name: "Overshoot" }).isVisible(), false, "there is no store to ask");
  for (const range of ["1 h", "6 h", "24 h"]) {
    const asked = page.waitForResponse((response) => response.url().includes(`range=${range.replace(" ", "")}`));
    await page.locator("#charts-picker").getByText(range, { exact: true }).click();
    assert.equal((await asked).status(), 200);
    assert.ok(await page.locator("#charts-picker").getByRole("radio", { name: range }).isChecked());
    // What hasn't filled a step yet is there all the same.
    await until(`the chart of ${range}`, async () => /per-user · api/.test(await told("By rule")));
  }
  await page.locator("#charts-picker").getByText("15 min", { exact: true }).click();
  const log = page.locator("#charts-picker").getByRole("button", { name: "Log scale" });
  await log.click();
  assert.equal(await log.getAttribute("aria-pressed"), "true");
  assert.equal(await page.locator("#overview-picker button").first().getAttribute("aria-pressed"), "true", "everywhere");
  const { x, y, width, height } = await page.locator("#charts canvas").first().boundingBox();
  await page.mouse.move(x + width * 0.7, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width * 0.9, y + height / 2, { steps: 4 });
  await page.mouse.up();
  const out = page.locator("#charts-picker").getByRole("button", { name: /Reset zoom/ });
  await out.click();
  await out.waitFor({ state: "hidden" });
  await log.click();
  const key = page.locator("#charts .key", { hasText: "denied" }).first();
  await key.click();
  assert.equal(await key.getAttribute("aria-pressed"), "false");
  assert.deepEqual(page.seen.complaints, []);
}

async function saysWhereTheRulesAre(page) {
  await page.goto(`${url}/#/rules`);
  await page.waitForSelector("#rules-list table");
  assert.match(await page.innerText("#rules-from"), /read-only here: \/.*rules\.yaml/);
  assert.match(await page.innerText("#rules-list"), /per-user/);
  assert.equal(await page.isVisible("#editor"), false);
}

/** Which theme is in force, by what is painted. */
const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

async function hasTwoThemes() {
  const [light, dark] = [await open({ theme: "light" }), await open({ theme: "dark" })];
  const [bright, night] = [await ground(light), await ground(dark)];
  assert.notEqual(bright, night);
  const button = light.getByRole("button", { name: /Theme/ });
  for (const [name, wanted] of [["Light", bright], ["Dark", night]]) {
    await button.click();
    assert.equal(await button.innerText(), name);
    assert.equal(await ground(light), wanted);
  }
  await light.reload();
  assert.equal(await ground(light), night, "it is remembered");
  await Promise.all([light, dark].map((page) => page.context().close()));
}

async function fitsAndHasNoBarriers() {
  for (const theme of ["light", "dark"]) {
    for (const width of [1400, 400]) {
      const page = await open({ theme, width });
      await isLive(page);
      for (const view of VIEWS) {
        await page.goto(`${url}/#/${view}`);
        await page.waitForSelector(`#view-${view}:not([hidden])`);
        if (view === "why") await page.waitForSelector("article.decision");
        const [wide, whole] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(wide <= whole, `${view} at ${width} px is ${wide} px wide`);
        if (width === 1400 || theme === "light") assert.deepEqual(await barriers(page), [], `${view}, ${theme}, ${width} px`);
      }
      await page.context().close();
    }
  }
}

/** Through all of it without a pointer. */
async function worksByKeyboard() {
  const page = await open();
  await isLive(page);
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim() || document.activeElement.id);
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Skip to the content");
  const tabTo = async (wanted) => {
    for (let presses = 0; presses < 40; presses += 1) {
      if ((await focused()) === wanted) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`${wanted} can't be reached`);
  };
  await tabTo("Why");
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(outline, "solid", "the focus is visible");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#view-why:not([hidden])");
  await tabTo("why-identifier");
  await page.keyboard.type("mallory-7");
  await page.keyboard.press("Enter");
  await until("the answer", async () => page.url().includes("identifier=mallory-7") && (await page.locator("article.decision").count()) > 0);
  await page.goto(`${url}/#/overview`);
  await page.waitForSelector("#view-overview:not([hidden])");
  const slider = page.locator("#overview-chart .slider");
  await slider.focus();
  const newest = await slider.getAttribute("aria-valuenow");
  for (const key of ["ArrowLeft", "ArrowLeft"]) await page.keyboard.press(key);
  await until("the cursor", async () => Number(await slider.getAttribute("aria-valuenow")) < Number(newest));
  assert.match(await slider.getAttribute("aria-valuetext"), /UTC {2}all .*denied/);
  const out = page.locator("#overview-picker").getByRole("button", { name: /Reset zoom/ });
  await page.keyboard.press("+");
  await out.waitFor();
  await page.keyboard.press("Escape");
  await out.waitFor({ state: "hidden" });
  await page.context().close();
}

async function comesBackAfterALoss() {
  const page = await open();
  await isLive(page);
  await page.context().setOffline(true);
  await page.waitForSelector('#connection[data-state="lost"]');
  assert.match(await page.innerText("#lost"), /Lost the node/);
  await page.context().setOffline(false);
  await isLive(page);
  assert.equal(await page.isVisible("#lost"), false);
  await page.context().close();
}

await run(async () => {
  await isSmallAndSoonThere();
  const page = await isLiveAndExplains();
  await searches(page);
  await filters(page);
  await chartsTheRange(page);
  await saysWhereTheRulesAre(page);
  await page.context().close();
  await hasTwoThemes();
  await fitsAndHasNoBarriers();
  await worksByKeyboard();
  await comesBackAfterALoss();
});
