// The page's own thread stays free: in a run, while a fleet of 64 replicas plays, at the start. See measure.mjs for what is measured.
import assert from "node:assert/strict";
import { base, browser, endedWell, pageTest } from "./lib.mjs";
import { play, runOnce, spread, traced, usable, watchStart } from "./measure.mjs";

const LONGEST_MS = 50;
const FRAME_MS = 1000 / 60;

pageTest("the page can be used a second after its wasm has come", { open: false }, async ({ page }) => {
  await watchStart(page);
  await page.goto(new URL("#preset=book-trace", base).href);
  const { shown, ready } = await usable(page);
  // The simulator comes on its own way meanwhile; when it is there depends on the network.
  console.log(`after the page's wasm had come: shown after ${shown.toFixed(0)} ms, the first run under way after ${ready.toFixed(0)} ms`);
  assert.ok(shown > 0 && shown < 1000, `${shown} ms`);
});

pageTest(
  "a run on 64 replicas leaves the page's thread free",
  { path: "#preset=multi-tenant&workload.requests=20000&replicas=64", timeout: 240_000 },
  async ({ page }) => {
    await endedWell(page);
    const { tasks } = await traced(await browser(), page, () => runOnce(page));
    await endedWell(page);
    const { p99, most } = spread(tasks);
    // The longest is the arrival of the report, with all that shows it; it is printed and not judged, since a busy machine makes it anything.
    console.log(`page's thread in a run: ${tasks.length} tasks, p99 ${p99.toFixed(1)} ms, longest ${most.toFixed(1)} ms of CPU (aim ${LONGEST_MS})`);
    assert.ok(tasks.length > 50, "the trace has the page's tasks");
    assert.ok(p99 < LONGEST_MS, `${p99} ms`);
  },
);

pageTest(
  "drawing a picture of 64 replicas does not lay the page out",
  { path: "#preset=multi-tenant&workload.requests=5000&replicas=64", timeout: 240_000 },
  async ({ page }) => {
    await endedWell(page);
    const { tasks, seconds, frames, heard, forced } = await traced(await browser(), page, () => play(page, 4000));
    const { sum } = spread(tasks);
    console.log(
      `64 replicas at play: ${(frames / seconds).toFixed(0)} frames a second, ${(sum / frames).toFixed(1)} ms of CPU for each (aim ${FRAME_MS.toFixed(1)} ms; ` +
        `pixels are drawn by the CPU here); ${heard} pictures, ${forced} layouts in the middle of one`,
    );
    // Where cards are is asked four times a second, and nothing else is asked of a page that is half drawn.
    assert.ok(forced <= 4 * seconds + 3, `${forced} in ${seconds} s`);
    assert.ok(heard > 10, `${heard} pictures say nothing`);
  },
);
