// The page with a real model: TinyGPT computes every step, on the CPU.
import assert from "node:assert/strict";
import { pageTest, shotsOf } from "./lib.mjs";

const MINUTE = 60_000;
const policies = "policies=round_robin,prefix_affinity(guard=0)";

/** Waits until a live run has ended; the page first shows a priced one when the address asks for nothing else. */
async function ended(page) {
  const word = page.getByTestId("status");
  await page.waitForFunction(() => ["done", "failed"].includes(document.querySelector("[data-testid=status]")?.textContent));
  // No waiting for an error that is not there.
  const errors = await page.getByTestId("error").allTextContents();
  assert.equal(await word.textContent(), "done", errors.join("; "));
}

/** Round-robin and unguarded affinity, hit and prompt tokens. */
async function reuse(page) {
  const figures = [];
  for (const row of [0, 1]) {
    const cell = page.getByTestId(`reuse-${row}`);
    figures.push([Number(await cell.getAttribute("data-hit")), Number(await cell.getAttribute("data-prompt"))]);
  }
  return figures;
}

const exact = [
  [2464, 10476],
  [7424, 10476],
];

pageTest(
  "the reference model serves the fixed trace on the CPU",
  { path: `#preset=book-trace&${policies}&execution.mode=tinygpt&execution.device=cpu`, timeout: 3 * MINUTE, reducedMotion: "reduce" },
  async ({ page }) => {
    await ended(page);
    assert.deepEqual(await reuse(page), exact);
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
