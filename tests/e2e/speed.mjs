// How long the page takes for the runs whose addresses stand in a file: a name, a tab and a fragment on each line. Prints rows of
// `cargo xtask bench`: what, value, unit, remark. The chart is on the page and drawn all the while.
// node tests/e2e/speed.mjs --url http://127.0.0.1:8080/ --addresses FILE
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const { values } = parseArgs({ options: { url: { type: "string" }, addresses: { type: "string" } } });
const flags = JSON.parse(readFileSync(new URL("../webdriver.json", import.meta.url), "utf8"))["goog:chromeOptions"].args;
const browser = await chromium.launch({
  executablePath: process.env.SERVELAB_BROWSER ?? "/usr/bin/chromium",
  args: [...flags.filter((flag) => flag !== "--headless"), "--enable-precise-memory-info"],
  headless: true,
});
for (const line of readFileSync(values.addresses, "utf8").split("\n").filter((line) => line.includes("\t"))) {
  const [name, fragment] = line.split("\t");
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 860 }, serviceWorkers: "block" })).newPage();
  page.on("pageerror", (error) => console.error(error));
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
  await page.waitForFunction(() => ["done", "failed"].includes(document.querySelector("[data-testid=status]")?.textContent), undefined, {
    timeout: 600_000,
    polling: 100,
  });
  const seconds = (Date.now() - started) / 1000;
  const status = await page.getByTestId("status").textContent();
  if (status !== "done") throw new Error(`${name}: ${await page.getByTestId("error").allTextContents()}`);
  const longest = await page.evaluate(() => window.longest);
  console.log(`page: ${name}\t${seconds.toFixed(1)}\ts\tlongest task of the main thread ${longest.toFixed(0)} ms`);
  await page.context().close();
}
await browser.close();
