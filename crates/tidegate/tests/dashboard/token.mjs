// Where tokens are in use the page asks for one, once, and shows what it may see and do.
const [reader, admin, tenant] = more;

async function enter(page, token) {
  await page.getByRole("textbox", { name: "Token" }).fill(token);
  await page.getByRole("button", { name: "Use it" }).click();
}

await run(async () => {
  const page = await open();
  await page.waitForSelector("#token-dialog[open]");
  assert.deepEqual(await barriers(page), []);
  await enter(page, "tg_000000000000_wrong");
  await until("the refusal", async () => /not known/.test(await page.innerText("#token-problem")));
  await enter(page, reader);
  await isLive(page);
  assert.equal(await page.isVisible("#token-dialog"), false);
  await page.reload();
  await isLive(page);
  assert.equal(await page.evaluate(() => localStorage.length), 0, "it isn't kept beyond the tab");

  // Who may only read sees the rules, and can't change them.
  await page.goto(`${url}/#/rules`);
  await until("the text", async () => (await page.getByLabel(/Its rules, as YAML/).inputValue()).includes("per-user"));
  assert.match(await page.innerText("#editor"), /takes a token with the permission admin/);
  assert.equal(await page.isVisible("text=Review the change"), false);

  await page.getByRole("button", { name: "Forget token" }).click();
  await page.waitForSelector("#token-dialog[open]");
  await enter(page, admin);
  await isLive(page);
  await page.waitForSelector("text=Review the change");
  await until("the text", async () => (await page.getByLabel(/Its rules, as YAML/).inputValue()).includes("100 per 1m"));
  const area = page.getByLabel(/Its rules, as YAML/);
  await area.fill((await area.inputValue()).replace("100 per 1m", "90 per 1m"));
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.getByLabel("Reason").fill("by its own token");
  await page.getByRole("button", { name: /^Push/ }).click();
  await until("the push", async () => /is stored/.test(await page.innerText("#editor .problem")));
  await until("the history", async () => (await page.innerText("#rules-fleet")).includes("tenant default"));

  // A tenant sees its own, and nothing of the rest.
  await page.getByRole("button", { name: "Forget token" }).click();
  await page.waitForSelector("#token-dialog[open]");
  await enter(page, tenant);
  await isLive(page);
  for (const view of VIEWS) {
    await page.goto(`${url}/#/${view}`);
    await page.waitForSelector(`#view-${view}:not([hidden])`);
    assert.deepEqual(await barriers(page), [], view);
  }
  assert.deepEqual(page.seen.complaints.filter((words) => !/40[13]/.test(words)), []);
});
