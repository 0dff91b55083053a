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
    await page.getByTestId("story").locator("dl").waitFor();
    await shotsOf(page, "live-cpu");
  },
);
