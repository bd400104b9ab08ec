// The page: which view is shown, the theme, the token, and whether anybody answers.

import { ask, hasToken, useToken } from "./ask.js";
import { byId, setAttribute, setHidden, setText } from "./element.js";
import { forget, live, onTick, start } from "./live.js";
import { callers } from "./callers.js";
import { charts } from "./charts.js";
import { remakeCharts } from "./chart.js";
import { overview } from "./overview.js";
import { rules } from "./rules.js";
import { tiers } from "./tiers.js";
import { why } from "./why.js";

const TITLES = { overview: "Overview", charts: "Charts", callers: "Callers", why: "Why", rules: "Rules", tiers: "Tiers" };
const THEMES = ["auto", "light", "dark"];
const WORDS = { wait: "connecting", live: "live", lost: "lost", token: "no token" };

/** Said once, by whoever reads the screen aloud. */
const announce = (words) => setText(byId("announce"), words);
const views = { overview: overview(), charts: charts(), callers: callers(), why: why(), rules: rules(announce), tiers: tiers() };
let shown = "";
let parameters = new URLSearchParams();

function route() {
  const [name, query = ""] = location.hash.replace(/^#\//, "").split("?");
  // Whatever else follows the `#`, such as the way past the header, is no view.
  if (location.hash && !location.hash.startsWith("#/")) return;
  const wanted = name in views ? name : "overview";
  parameters = new URLSearchParams(query);
  const isOther = wanted !== shown;
  if (isOther) views[shown]?.leave?.();
  for (const other of Object.keys(views)) setHidden(byId(`view-${other}`), other !== wanted);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const isFirst = shown === "";
  shown = wanted;
  document.title = `${TITLES[wanted]} · Tidegate`;
  views[shown].show(live, parameters);
  if (isOther && !isFirst) {
    scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
}

let last = "wait";

onTick(() => {
  const { connection, problem, state } = live;
  setAttribute(byId("connection"), "data-state", connection);
  setText(byId("connection-text"), WORDS[connection]);
  setHidden(byId("lost"), connection !== "lost");
  if (connection === "lost") setText(byId("lost"), `Lost the node: ${problem}. What is shown is old; it goes on by itself when the node answers.`);
  if (connection !== last) {
    if (connection === "lost") announce("The connection to the node is lost.");
    else if (last === "lost" && connection === "live") announce("The node answers again.");
    last = connection;
  }
  if (connection === "token") askForToken(problem);
  setHidden(byId("sign-out"), !hasToken());
  if (state) {
    setText(byId("node-name"), state.node ?? state.tenant ?? "");
    setText(byId("region-name"), state.region ? `in ${state.region}` : "");
  }
  views[shown].show(live, parameters);
});

function askForToken(problem) {
  const dialog = byId("token-dialog");
  if (dialog.open) return;
  setText(byId("token-problem"), hasToken() ? problem : "");
  dialog.showModal();
  byId("token").focus();
}

byId("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = byId("token");
  useToken(field.value.trim());
  try {
    await ask("/v1/state");
  } catch (error) {
    if (error.status === 401 || error.status === 403) {
      useToken("");
      setText(byId("token-problem"), `${error.message}. ${error.fix}`);
      field.select();
      return;
    }
  }
  field.value = "";
  byId("token-dialog").close();
  forget();
  start();
});
byId("token-dialog").addEventListener("cancel", (event) => event.preventDefault());
byId("sign-out").addEventListener("click", () => {
  useToken("");
  location.reload();
});

function showTheme() {
  const theme = document.documentElement.dataset.theme ?? "auto";
  setText(byId("theme-text"), { auto: "Auto", light: "Light", dark: "Dark" }[theme]);
  setAttribute(byId("theme"), "aria-label", `Theme: ${byId("theme-text").textContent}`);
}

byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const theme = THEMES[(THEMES.indexOf(root.dataset.theme ?? "auto") + 1) % THEMES.length];
  if (theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme;
  try {
    localStorage.setItem("tidegate-theme", theme);
  } catch {
    // Then it lasts as long as the page.
  }
  showTheme();
  remakeCharts();
});

addEventListener("hashchange", route);
showTheme();
route();
start();
