// How smooth the page is, and how long it takes for the runs whose addresses stand in a file: a name, a tab and a fragment on each line.
// Prints rows of `cargo xtask bench`: what, value, unit, remark. The chart is on the page and drawn all the while.
// node tests/e2e/speed.mjs --url http://127.0.0.1:8080/ --addresses FILE
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { ended, play, runOnce, spread, traced, usable, watchStart } from "./measure.mjs";

const { values } = parseArgs({ options: { url: { type: "string" }, addresses: { type: "string" } } });
const flags = JSON.parse(readFileSync(new URL("../webdriver.json", import.meta.url), "utf8"))["goog:chromeOptions"].args;
const browser = await chromium.launch({
  executablePath: process.env.SERVELAB_BROWSER ?? "/usr/bin/chromium",
  args: [...flags.filter((flag) => flag !== "--headless"), "--enable-precise-memory-info"],
  headless: true,
});
const row = (what, value, digits, unit, remark) => console.log(`page: ${what}\t${value.toFixed(digits)}\t${unit}\t${remark}`);
await smoothness();
for (const line of readFileSync(values.addresses, "utf8").split("\n").filter((line) => line.includes("\t"))) {
  const [name, fragment] = line.split("\t");
  const page = await fresh();
  let started = Date.now();
  await page.goto(new URL(`#${fragment}`, values.url).href);
  // Some addresses run by themselves, others when they are asked to. The main thread is watched meanwhile.
  await page.locator("[data-testid=run]:enabled, [data-testid=cancel]").waitFor({ timeout: 120_000 });
  await page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
    }).observe({ type: "longtask" });
  });
  if (await page.getByTestId("run").isVisible()) {
    started = Date.now();
    await page.getByTestId("run").click();
  }
  await ended(page);
  const seconds = (Date.now() - started) / 1000;
  const status = await page.getByTestId("status").textContent();
  if (status !== "done") throw new Error(`${name}: ${await page.getByTestId("error").allTextContents()}`);
  const longest = await page.evaluate(() => window.longest);
  row(name, seconds, 1, "s", `longest task of the main thread ${longest.toFixed(0)} ms by the clock`);
  if (name.startsWith("million")) await pan(page, name);
  await page.context().close();
}
await browser.close();

async function fresh() {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 860 }, serviceWorkers: "block" })).newPage();
  page.on("pageerror", (error) => console.error(error));
  return page;
}

/** When the page can be used, what a run asks of its thread, and what a picture costs. */
async function smoothness() {
  const page = await fresh();
  await watchStart(page);
  await page.goto(new URL("#preset=multi-tenant&workload.requests=20000&replicas=64", values.url).href);
  const { shown, ready } = await usable(page);
  row("shown after its wasm has come", shown, 0, "ms", `the first run under way after ${ready.toFixed(0)} ms; aim 1000`);
  await ended(page);
  const { tasks } = await traced(browser, page, () => runOnce(page));
  const { p99, most } = spread(tasks);
  row("longest task in a run, 64 replicas", most, 1, "ms", `of CPU; ${tasks.length} tasks, p99 ${p99.toFixed(1)} ms; aim 50`);
  const drawn = await traced(browser, page, () => play(page, 4000));
  const frame = spread(drawn.tasks).sum / drawn.frames;
  row("64 replicas at play", drawn.frames / drawn.seconds, 0, "frames/s", `${frame.toFixed(1)} ms of CPU for each, pixels by the CPU; aim 60`);
  await page.context().close();
}

/** A chart of all the run's requests, zoomed and panned: how long until the part is drawn, and what it asks of the page's thread. */
async function pan(page, name) {
  const chart = page.getByTestId("chart-ttft_over_time");
  const picture = chart.locator(".picture");
  await picture.locator("svg").waitFor();
  const press = async (label) => {
    const before = await picture.innerHTML();
    await chart.getByRole("button", { name: label }).click();
    const changed = (before) => document.querySelector("[data-testid=chart-ttft_over_time] .picture").innerHTML !== before;
    await page.waitForFunction(changed, before, { timeout: 60_000, polling: 20 });
  };
  for (let times = 0; times < 3; times += 1) await press("Zoom in");
  const steps = 10;
  let took;
  const { tasks } = await traced(browser, page, async () => {
    const started = Date.now();
    for (let step = 0; step < steps; step += 1) await press(step % 2 ? "Pan right" : "Pan left");
    took = (Date.now() - started) / steps;
  });
  row(`${name}: its chart panned`, took, 0, "ms", `a step; longest task ${spread(tasks).most.toFixed(1)} ms of CPU`);
}
