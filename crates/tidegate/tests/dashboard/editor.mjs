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
  assert.deepEqual(page.seen.complaints.filter((words) => !/40[09]/.test(words)), []);
});
