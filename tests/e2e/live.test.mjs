// The page with a real model: TinyGPT computes every step, on the CPU.
import assert from "node:assert/strict";
import { endedWell, exactReuse, pageTest, reuseOfTwo, shotsOf } from "./lib.mjs";

const MINUTE = 60_000;
const policies = "policies=round_robin,prefix_affinity(guard=0)";

pageTest(
  "the reference model serves the fixed trace on the CPU",
  { path: `#preset=book-trace&${policies}&execution.mode=tinygpt&execution.device=cpu`, timeout: 3 * MINUTE, reducedMotion: "reduce" },
  async ({ page }) => {
    await endedWell(page);
    assert.deepEqual(await reuseOfTwo(page), exactReuse);
    const device = await page.getByTestId("device").textContent();
    assert.match(device, /CPU|flex/i);
    assert.equal(await page.getByTestId("notice").count(), 0);
    // A run this long was watched to its end, where nothing is under way any more; the first arrival is.
    await page.locator("body").press("Home");
    await page.locator("body").press("ArrowRight");
    await page.locator(".pill:visible").first().click();
    await page.getByTestId("why-text").click();
    await page.getByTestId("story").locator("dl").waitFor();
    await shotsOf(page, "live-cpu");
  },
);

pageTest(
  "readings of a hidden tab are dropped and taken again when it is seen",
  { path: "#preset=book-trace", timeout: MINUTE, reducedMotion: "reduce" },
  async ({ page }) => {
    const hide = (hidden) =>
      page.evaluate((value) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await hide(true);
    await page.getByTestId("run").click();
    await endedWell(page);
    // The CPU is measured by itself once a result stands; give it the time that this takes.
    await page.waitForFunction(() => document.querySelector("[data-testid=device] button")?.disabled === true);
    await page.waitForFunction(() => document.querySelector("[data-testid=device] button")?.disabled === false, undefined, { timeout: 30_000 });
    assert.equal(await page.getByTestId("device-cpu").count(), 0, "a reading of a hidden tab was kept");
    await hide(false);
    await page.getByTestId("device-cpu").waitFor({ timeout: 30_000 });
  },
);

pageTest(
  "a replica that starts fetches the trained weights for itself, loads them and warms up",
  { path: "#preset=live-cold-start&execution.device=cpu", timeout: 3 * MINUTE, reducedMotion: "reduce" },
  async ({ page }) => {
    let fetched = 0;
    page.context().on("request", (request) => (fetched += request.url().includes("tinygpt.safetensors") ? 1 : 0));
    await page.getByTestId("run").click();
    await endedWell(page);
    assert.ok(fetched >= 2, `one for the replica that was there, one for each that started: ${fetched}`);
    const parts = await page.getByTestId("delays").first().locator("li").allTextContents();
    for (const part of ["Weights to host", "Weights to GPU", "Warm-up"]) {
      assert.ok(parts.some((text) => text.startsWith(part)), `${part}: ${parts.join(", ")}`);
    }
    await shotsOf(page, "live-cold-start");
  },
);

pageTest(
  "real replicas under a storm of clients",
  { path: "#preset=live-storm&execution.device=cpu&workload.requests=200&faults.errors=0.5&faults.errors_at_s=0&faults.errors_s=1000", timeout: 3 * MINUTE, reducedMotion: "reduce" },
  async ({ page }) => {
    await page.getByTestId("run").click();
    await endedWell(page);
    await page.getByTestId("clients-table").waitFor();
    // Half of all calls fail, and clients try up to three times: 1.75 attempts of each on average.
    const attempts = Number(await page.getByTestId("amplification-0").textContent());
    assert.ok(attempts > 1.4 && attempts < 2.1, `${attempts}`);
    assert.ok((await page.getByTestId("refusal-row").count()) > 0, "errors are told by layer and cause");
  },
);
