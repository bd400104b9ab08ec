// A node that follows a control plane: its rules are changed from the page, by two people at once too.
const [api, control] = more;
const limit = async () => (await json(`${control}/v1/rules`)).documents[0].text;
const problem = (page) => page.locator("#editor .problem");

async function edit(page, from, to) {
  const area = page.getByLabel(/Its rules, as YAML/);
  await area.fill((await area.inputValue()).replace(from, to));
}

async function push(page, reason) {
  await page.getByLabel("Reason").fill(reason);
  await page.getByRole("button", { name: /^Push/ }).click();
}

/** A version is opened, and the rules go back to it; what it means is shown first. */
async function opensAndRollsBack(page) {
  const card = page.locator("#rules-versions");
  await card.getByRole("button", { name: "Open version 2" }).click();
  await until("the version", async () => /Version 2: half of it/.test(await card.innerText()));
  assert.match(await card.locator(".line.removed").first().innerText(), /100 per 1m/);
  await card.getByRole("button", { name: "Roll back to version 2" }).click();
  await card.locator("#rollback-reason").fill("it was fine before");
  assert.match(await limit(), /60 per 1m/, "nothing is stored by looking");
  await card.getByRole("button", { name: "Roll back to version 2" }).click();
  await until("the way back", async () => /50 per 1m/.test(await limit()));
  await until("the history", async () => (await card.innerText()).includes("it was fine before"));
}

async function changesOverrides(page) {
  const card = page.locator("#rules-overrides");
  const rows = () => card.locator("tbody tr").allInnerTexts();
  const set = async (user, limit, until = "") => {
    await card.getByRole("button", { name: "Add an override" }).click();
    await card.getByLabel("user", { exact: true }).fill(user);
    await card.getByLabel("Limit", { exact: true }).fill(limit);
    if (until) await card.getByLabel(/^Until/).fill(until);
    await card.getByRole("button", { name: "Set it" }).click();
    await card.locator(".problem.good").waitFor();
  };
  await set("bob", "500", "2099-01-01T00:00");
  await set("acme-*", "9");
  await until("both", async () => (await rows()).length === 2);
  assert.match((await rows()).find((row) => /bob/.test(row)), /limit 500[^]*2099-01-01 00:00:00/);
  assert.deepEqual(await barriers(page), []);
  await card.getByLabel("Search").fill("ACME");
  await until("the search", async () => (await rows()).length === 1);
  await card.getByLabel("Search").fill("");
  // In force at the node, not only stored.
  const answer = () => json(`${api}/v1/check`, { namespace: "api", attributes: { user: "bob" }, cost: 0 });
  await until("the override", async () => (await answer()).limits[0].limit === 500);
  await card.getByRole("button", { name: "Edit the override of bob" }).click();
  await card.getByLabel("Limit", { exact: true }).fill("700");
  await card.getByRole("button", { name: "Store it" }).click();
  await until("the change", async () => (await answer()).limits[0].limit === 700);
  // What is wrong is said where it is typed, and changes nothing.
  await card.getByRole("button", { name: "Edit the override of bob" }).click();
  await card.getByLabel("Limit", { exact: true }).fill("many");
  await card.getByRole("button", { name: "Store it" }).click();
  await card.locator('.problem[role="alert"]').waitFor();
  await card.getByRole("button", { name: "Cancel" }).click();
  await card.getByRole("button", { name: "Remove the override of bob" }).click();
  await card.getByRole("button", { name: "Remove it" }).click();
  await until("the removal", async () => (await rows()).length === 1);
}

/** Names that are HTML, or very long, are only text, everywhere. */
async function isHarmedByNoName(page) {
  const evil = `<img src=x onerror="document.title='harmed'"><script>alert(1)</script>`;
  const rules = `namespace: ${JSON.stringify(`<b>${"n".repeat(100)}`)}\nrules:\n  - name: ${JSON.stringify(`<i>'"&${"r".repeat(100)}`)}\n    key: [user]\n    limit: 1 per 1h\n    description: ${JSON.stringify(evil)}\n`;
  await json(`${control}/v1/rules`, { files: [{ name: "evil.yaml", text: rules }], author: evil, reason: evil });
  const body = { namespace: `<b>${"n".repeat(100)}`, attributes: { user: evil + "x".repeat(400) } };
  await until("the rule", async () => (await json(`${api}/v1/check`, body)).limits.length === 1);
  const asking = setInterval(() => json(`${api}/v1/check`, body).catch(() => {}), 30);
  try {
    for (const view of VIEWS) {
      await page.goto(`${url}/#/${view}`);
      await page.waitForSelector(`#view-${view}:not([hidden])`);
      const words = { overview: "Denied most", charts: "By rule", callers: "<img src=x", why: "<b>nnn", rules: "<img src=x", tiers: "This node" }[view];
      await until(`${view} with the names`, async () => (await page.innerText(`#view-${view}`)).includes(words));
      assert.equal(await page.locator("main img, main script, main b").count(), 0, view);
      for (const width of [390, 1280]) {
        await page.setViewportSize({ width, height: 900 });
        const [wide, whole] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(wide <= whole, `${view} at ${width} px is ${wide} px wide`);
      }
    }
    assert.doesNotMatch(await page.title(), /harmed/);
  } finally {
    clearInterval(asking);
  }
}

await run(async () => {
  const page = await open();
  await isLive(page);
  await page.getByRole("link", { name: "Rules", exact: true }).click();
  await until("the text", async () => (await page.getByLabel(/Its rules, as YAML/).inputValue()).includes("per-user"));

  // A mistake is shown with its place, and nothing is stored.
  await edit(page, "100 per 1m", "100 per fortnight");
  await page.getByRole("button", { name: "Review the change" }).click();
  await problem(page).waitFor();
  assert.match(await problem(page).innerText(), /Line 5, column \d+/);
  assert.equal(await page.locator(".gutter .row-bad").innerText(), "5\n", "the line is marked");
  assert.ok(await page.locator(".paint .tok-name").count(), "the text has colours");
  // The coloured copy lies exactly below what is typed.
  const [tops, height] = await page.evaluate(() => {
    const rows = [...document.querySelectorAll(".paint > span")].map((row) => row.getBoundingClientRect());
    return [rows.map(({ top }) => top - rows[0].top), rows[0].height];
  });
  tops.forEach((top, row) => assert.ok(Math.abs(top - row * height) < 0.5, `row ${row} is at ${top}`));
  await page.getByRole("button", { name: "Start over" }).click();
  await problem(page).waitFor({ state: "detached" });

  // What it means and which lines change, before it is pushed.
  await edit(page, "100 per 1m", "50 per 1m");
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.waitForSelector(".meaning li");
  assert.match(await page.innerText(".meaning"), /50/);
  assert.match(await page.innerText(".line.removed"), /100 per 1m/);
  assert.match(await page.innerText(".line.added"), /50 per 1m/);
  assert.match(await limit(), /100 per 1m/, "nothing is stored by looking");
  assert.deepEqual(await barriers(page), []);
  await push(page, "half of it");
  await until("the push", async () => /is stored/.test(await problem(page).innerText()));
  assert.match(await limit(), /50 per 1m/);
  await until("the history", async () => (await page.innerText("#rules-fleet")).includes("half of it"));
  await until("the node", async () => /All that are connected have version 2/.test(await page.innerText("#rules-fleet")));
  await until("the rules in force", async () => (await page.innerText("#rules-list")).includes("about 50 "));

  // Somebody else is faster.
  await edit(page, "50 per 1m", "60 per 1m");
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.waitForSelector("#editor-reason");
  const theirs = (await limit()).replace("50 per 1m", "70 per 1m");
  await json(`${control}/v1/rules`, { files: [{ name: "rules.yaml", text: theirs }], keep_overrides: true, author: "carol", reason: "carol was here" });
  await push(page, "sixty");
  await until("the conflict", async () => /Somebody was faster/.test(await problem(page).innerText()));
  assert.match(await page.innerText("#editor"), /carol was here/);
  assert.match(await limit(), /70 per 1m/, "theirs stays");
  assert.deepEqual(await barriers(page), []);
  await page.getByRole("button", { name: /Review my text upon version 3/ }).click();
  await until("the new difference", async () => (await page.innerText("#editor")).includes("70 per 1m"));
  await push(page, "sixty, after all");
  await until("the push", async () => /Version 4 is stored/.test(await problem(page).innerText()));
  assert.match(await limit(), /60 per 1m/);

  // A stricter limit is tried before it is switched on: what is enforced stays, and the report fills.
  await edit(page, "60 per 1m", "3 per 1m");
  await page.getByRole("button", { name: "Try as shadow" }).click();
  await page.waitForSelector("#editor-reason");
  assert.match(await page.innerText("#editor"), /Only tried: per-user-trial/);
  await push(page, "would three do?");
  await until("the trial", async () => /Version 5 is stored/.test(await problem(page).innerText()));
  const text = await limit();
  assert.ok(text.includes("60 per 1m") && /per-user-trial\s+shadow: true[^-]* 3 per 1m/.test(text), text);
  const answers = [];
  await until("the report", async () => {
    // Well below what is enforced: the page may take a while.
    if (answers.length < 20) answers.push(await json(`${api}/v1/check`, { namespace: "api", attributes: { user: "dave" } }));
    return (await page.innerText("#rules-shadow")).includes("dave");
  });
  assert.ok(answers.every(({ allowed }) => allowed), "a shadow rule denies nobody");
  assert.ok(answers.length > 3);

  await opensAndRollsBack(page);
  await changesOverrides(page);
  await isHarmedByNoName(page);
  assert.deepEqual(page.seen.complaints.filter((words) => !/40[09]/.test(words)), []);
});
