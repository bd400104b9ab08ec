// What all scripts begin with: a browser on the node's page, and how they say that all was fine.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [url, ...more] = process.argv.slice(1).filter((argument) => argument !== "--");
const VIEWS = ["overview", "charts", "callers", "why", "rules", "tiers"];
const SOON_MS = 20_000;

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });

/** Every page of every test: nothing may go to another host, and nothing may be refused by its own policy. */
async function open({ width = 1400, theme = "light", address = url } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(SOON_MS);
  page.seen = { hosts: new Set(), complaints: [], bytes: 0 };
  page.on("request", (request) => page.seen.hosts.add(new URL(request.url()).host));
  page.on("console", (message) => {
    if (message.type() === "error") page.seen.complaints.push(message.text());
  });
  page.on("pageerror", (error) => page.seen.complaints.push(String(error)));
  page.answer = await page.goto(address);
  return page;
}

const isLive = (page) => page.waitForSelector('#connection[data-state="live"]');

/** What axe-core finds that is serious or critical. */
async function barriers(page) {
  if (!(await page.evaluate(() => "axe" in globalThis))) {
    // Given to the page by its debugger, not by a script element: the policy stays as it is.
    await page.evaluate(readFileSync("node_modules/axe-core/axe.min.js", "utf8"));
  }
  const { violations } = await page.evaluate(() => axe.run(document));
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join(" | ")}`);
}

async function until(what, look, withinMs = SOON_MS) {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < deadline, `${what}: not within ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const json = async (address, body) => {
  const response = await fetch(address, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
  return response.json();
};

async function run(steps) {
  try {
    await steps();
    console.log("fine");
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
  } finally {
    await browser.close();
  }
}
