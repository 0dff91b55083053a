// The page in Firefox, on the CPU: the same figures, the same pictures, nothing on the console.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, missing, program } from "./firefox.mjs";
import { base, exactReuse } from "./lib.mjs";

// A machine without Firefox says so; the one that decides what lands has one.
const skip = !program && !process.env.CI && missing;
const screenshots = join(dirname(fileURLToPath(import.meta.url)), "..", "screenshots");

let launched;
after(async () => (await launched)?.close());

/** A test on a page of its own whose console, exceptions and policy violations are watched. */
function firefoxTest(name, { path = "", width = 1280, height = 860, timeout = 120_000 }, body) {
  test(`Firefox: ${name}`, { timeout, skip }, async () => {
    assert.ok(program, "no Firefox");
    launched ??= launch();
    const context = await (await launched).createBrowserContext();
    try {
      const page = await context.newPage();
      page.setDefaultTimeout(timeout - 5_000);
      const problems = [];
      page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
      page.on("pageerror", (error) => problems.push(error.stack ?? error.message));
      page.on("requestfailed", (request) => problems.push(`${request.url()}: ${request.failure()?.errorText}`));
      await page.setViewport({ width, height });
      await page.goto(new URL(path, base).href);
      await body(page);
      assert.deepEqual(problems, [], "the page complained");
      mkdirSync(screenshots, { recursive: true });
      await page.screenshot({ path: join(screenshots, `firefox-${name.replace(/[^a-z0-9]+/gi, "-").toLowerCase()}.png`) });
    } finally {
      await context.close();
    }
  });
}

const id = (name) => `[data-testid="${name}"]`;
const textOf = (page, name) => page.$eval(id(name), (element) => element.textContent);

async function endedWell(page) {
  await page.waitForFunction(() => ["done", "failed"].includes(document.querySelector("[data-testid=status]")?.textContent));
  const errors = await page.$$eval(id("error"), (elements) => elements.map((element) => element.textContent));
  assert.equal(await textOf(page, "status"), "done", errors.join("; "));
}

const reuse = (page) =>
  page.evaluate(() => [0, 1].map((row) => document.querySelector(`[data-testid=reuse-${row}]`)).map((cell) => [Number(cell.dataset.hit), Number(cell.dataset.prompt)]));

const book = "#preset=book-trace&policies=round_robin,prefix_affinity(guard=0)";

firefoxTest("the fixed trace has its two exact reuse figures", { path: book }, async (page) => {
  await endedWell(page);
  assert.deepEqual(await reuse(page), exactReuse);
});

firefoxTest("the small model serves the fixed trace on the CPU", { path: `${book}&execution.mode=tinygpt&execution.device=cpu&execution.model=small` }, async (page) => {
  await endedWell(page);
  assert.deepEqual(await reuse(page), exactReuse);
  assert.match(await textOf(page, "device"), /CPU/);
});

firefoxTest("a run plays and its charts are drawn", { path: "#preset=multi-tenant" }, async (page) => {
  await endedWell(page);
  await page.waitForFunction(() => document.querySelectorAll("[data-testid^=chart-] svg, figure svg").length > 0);
  await page.waitForFunction(() => Number(document.querySelector("[data-testid=scrub]").value) > 0);
  const cells = await page.$eval("canvas", (canvas) => canvas.width * canvas.height);
  assert.ok(cells > 0, "blocks are drawn");
});

firefoxTest("a long run can be cancelled", { path: "#preset=multi-tenant&workload.requests=200000" }, async (page) => {
  await page.waitForFunction(() => document.querySelector("[data-testid=status]")?.textContent === "running");
  await page.click(id("cancel"));
  await page.waitForFunction(() => document.querySelector("[data-testid=status]").textContent === "stopped");
});

firefoxTest("back undoes a change", { path: book }, async (page) => {
  await endedWell(page);
  await page.evaluate(() => (location.hash = "#preset=multi-tenant"));
  await page.waitForFunction(() => location.hash.includes("multi-tenant") && document.querySelector("[data-testid=status]").textContent === "done");
  await page.goBack();
  await page.waitForFunction(() => document.querySelector("[data-testid=reuse-1]")?.dataset.prompt === "10476");
  assert.deepEqual(await reuse(page), exactReuse);
});

firefoxTest("nothing is wider than a phone of 320 pixels", { path: "#preset=multi-tenant", width: 320, height: 640 }, async (page) => {
  await endedWell(page);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320);
});
