// The guided path: it knows where the visitor is, keeps what was learnt on the device, and leads on.
import assert from "node:assert/strict";
import { endedWell, pageTest, shotsOf } from "./lib.mjs";

const calm = { reducedMotion: "reduce", timeout: 120_000 };

pageTest("a lesson: guess, run, where to look, one thing to try, the next lesson", { path: "#preset=multi-tenant", ...calm }, async ({ page }) => {
  const path = page.getByTestId("path");
  await path.getByText("Lesson 1 of 8").waitFor();
  await page.getByTestId("run").click();
  await endedWell(page);
  const lesson = page.getByTestId("lesson");
  await lesson.waitFor();
  assert.match(await lesson.textContent(), /reuse/);
  assert.match(await page.getByTestId("path-done").textContent(), /1 of 8/);
  await shotsOf(page, "lesson", { fullPage: true });
  await page.getByTestId("try").click();
  await page.waitForFunction(() => location.hash.includes("engine.blocks=1024"));
  await endedWell(page);
  await page.getByTestId("next-lesson").click();
  await path.getByText("Lesson 2 of 8").waitFor();
  assert.equal(await page.getByTestId("predict").count(), 1, "the next lesson begins with a guess");
  assert.equal(await page.getByTestId("lesson").count(), 0, "nothing is said before its run");
  // What was learnt stays on the device.
  await page.reload();
  await path.locator("summary").click();
  // The reloaded page runs the second lesson at once, and may have counted it by now: what is asked is the first one's mark.
  const first = path.locator("li", { has: page.getByTestId("learn-multi-tenant") }).first();
  await first.getByText("done", { exact: true }).waitFor();
  assert.equal(await page.getByTestId("learn-hot-tenant").first().getAttribute("aria-current"), "step");
  await shotsOf(page, "path", { fullPage: true });
});

pageTest("thirteen questions lead to experiments", { path: "#preset=multi-tenant", ...calm }, async ({ page }) => {
  await page.getByTestId("path").locator("summary").click();
  await page.getByTestId("learn-cold-start-parts").first().waitFor();
  const asked = page.getByTestId("path").locator("section").nth(1).locator("li");
  assert.equal(await asked.count(), 13);
  await asked.nth(11).locator("button").first().click();
  await page.waitForFunction(() => location.hash.includes("scale-down-drops"));
  await page.getByTestId("run").click();
  await endedWell(page);
  assert.match(await page.getByTestId("verdict").textContent(), /answers under way were cut off/);
});

pageTest("where storage is refused the path works and forgets", { path: "#preset=multi-tenant", ...calm }, async ({ page }) => {
  await page.addInitScript(() => Object.defineProperty(window, "localStorage", { get: () => { throw new DOMException("no", "SecurityError"); } }));
  await page.reload();
  await page.getByTestId("path").getByText("Lesson 1 of 8").waitFor();
  await page.getByTestId("run").click();
  await endedWell(page);
  assert.match(await page.getByTestId("path-done").textContent(), /1 of 8/);
});

pageTest("scrolled out of sight the stage stands still, and goes on where it stood", { path: "#preset=book-trace", timeout: 120_000 }, async ({ page }) => {
  await endedWell(page);
  const clock = () => page.getByTestId("scrub").inputValue().then(Number);
  // A quick run is shown from its start, playing.
  await page.waitForFunction(() => Number(document.querySelector("[data-testid=scrub]").value) > 0);
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await page.waitForTimeout(200);
  const before = await clock();
  await page.waitForTimeout(600);
  assert.equal(await clock(), before);
  await page.evaluate(() => scrollTo(0, 0));
  await page.waitForFunction((before) => Number(document.querySelector("[data-testid=scrub]").value) > before, before);
});
