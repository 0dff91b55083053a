// What goes wrong around a page has a designed outcome: workers that die, storage that is full, a tab that sleeps, browsers that lack something.
import assert from "node:assert/strict";
import { browserWith, endedWell, exactReuse, pageTest, reuseOfTwo } from "./lib.mjs";

const book = "#preset=book-trace&policies=round_robin,prefix_affinity(guard=0)";
const long = "#preset=multi-tenant&workload.requests=200000";
const calm = { reducedMotion: "reduce" };

/** Keeps the page's workers, so that a test can end one as a browser does that is out of memory. */
async function keepWorkers(page) {
  await page.addInitScript(() => {
    const Plain = window.Worker;
    window.workers = [];
    window.Worker = class extends Plain {
      constructor(...asked) {
        super(...asked);
        window.workers.push(this);
      }
    };
  });
}

const killFirst = (page) =>
  page.evaluate(() => {
    const [worker] = window.workers;
    worker.terminate();
    worker.dispatchEvent(new ErrorEvent("error", { message: "out of memory", cancelable: true }));
  });

pageTest("a worker that dies in a run is said and replaced, and the page goes on", { path: book, open: false, ...calm }, async ({ page }) => {
  await keepWorkers(page);
  await page.goto(new URL(long, process.env.SERVELAB_URL).href);
  // The simulator is there and at work.
  await page.getByTestId("status").getByText("running").waitFor();
  await killFirst(page);
  await page.getByTestId("error").waitFor();
  assert.match(await page.getByTestId("error").textContent(), /Out of memory.*started anew/);
  await page.evaluate((hash) => (location.hash = hash), book);
  await page.waitForFunction(() => document.querySelector("[data-testid=status]").textContent === "done");
  assert.deepEqual(await reuseOfTwo(page), exactReuse);
});

pageTest("a simulator that never loads is said, and another try loads it", { open: false, allow: [/worker\.js|500/], ...calm }, async ({ page }) => {
  const broken = (route) => route.fulfill({ status: 500, body: "" });
  await page.route("**/servelab-worker_bg.wasm", broken);
  await page.goto(new URL(book, process.env.SERVELAB_URL).href);
  const error = page.getByTestId("error");
  await error.waitFor();
  assert.match(await error.textContent(), /500.*never been ready/);
  await page.unroute("**/servelab-worker_bg.wasm", broken);
  await error.getByRole("button").click();
  await endedWell(page);
  assert.deepEqual(await reuseOfTwo(page), exactReuse);
});

pageTest("a worker that dies at rest is replaced when it is needed", { path: book, open: false, ...calm }, async ({ page }) => {
  await keepWorkers(page);
  await page.goto(new URL(book, process.env.SERVELAB_URL).href);
  await endedWell(page);
  await killFirst(page);
  await page.getByTestId("run").click();
  await endedWell(page);
  assert.deepEqual(await reuseOfTwo(page), exactReuse);
});

pageTest("a full storage costs the memory of what was learnt and nothing else", { path: "#preset=multi-tenant", open: false, ...calm }, async ({ page }) => {
  await page.addInitScript(() => {
    Storage.prototype.setItem = () => {
      throw new DOMException("full", "QuotaExceededError");
    };
  });
  await page.goto(new URL("#preset=multi-tenant", process.env.SERVELAB_URL).href);
  await endedWell(page);
  // The first run is the page's own; a lesson counts when its visitor took part.
  assert.doesNotMatch(await page.getByTestId("path-done").textContent(), /1 of 8/);
  await page.getByTestId("run").click();
  await page.getByTestId("path-done").getByText("1 of 8").waitFor();
  assert.match(await page.getByTestId("path-done").textContent(), /1 of 8/);
});

pageTest("a tab that slept for an hour goes on where it stood", { path: book, open: false }, async ({ page }) => {
  await page.clock.install();
  await page.goto(new URL("#preset=multi-tenant", process.env.SERVELAB_URL).href);
  await endedWell(page);
  const clock = () => page.getByTestId("scrub").inputValue().then(Number);
  // It plays from its start.
  await page.waitForFunction(() => Number(document.querySelector("[data-testid=scrub]").value) > 0);
  const before = await clock();
  await page.clock.fastForward("01:00:00");
  await page.clock.runFor(100);
  const after = await clock();
  const end = Number(await page.getByTestId("scrub").getAttribute("max"));
  // At this speed an hour is many times the run.
  assert.ok(after < before + end / 20, `${before} s, an hour later ${after} s of ${end} s`);
});

pageTest("two tabs do not disturb each other", { path: book, ...calm }, async ({ page, context }) => {
  const other = await context.newPage();
  await Promise.all([endedWell(page), other.goto(new URL(book, process.env.SERVELAB_URL).href)]);
  await endedWell(other);
  assert.deepEqual(await reuseOfTwo(page), exactReuse);
  assert.deepEqual(await reuseOfTwo(other), exactReuse);
});

pageTest("without WebGPU a live run computes on the CPU",
  { path: `${book}&execution.mode=tinygpt&execution.model=small`, open: false, timeout: 120_000, ...calm },
  async ({ page }) => {
    await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "gpu", { get: () => undefined }));
    await page.goto(new URL(`${book}&execution.mode=tinygpt&execution.model=small`, process.env.SERVELAB_URL).href);
    await endedWell(page);
    assert.match(await page.getByTestId("device").locator("p").first().textContent(), /CPU/);
    assert.deepEqual(await reuseOfTwo(page), exactReuse);
  });

pageTest("without WebAssembly the page says what it needs", { open: false, allow: [/WebAssembly/], ...calm }, async ({ page }) => {
  await page.addInitScript(() => delete window.WebAssembly);
  await page.goto(process.env.SERVELAB_URL);
  await page.getByRole("alert").waitFor();
  assert.match(await page.locator("#boot-status").textContent(), /needs WebAssembly, which this browser lacks/);
});

pageTest(
  "without SIMD the page says what it needs",
  // A processor without these has none.
  { launched: () => browserWith(["--js-flags=--no-enable-sse4-1 --no-enable-avx"]), allow: [/^uncaught/], ...calm },
  async ({ page }) => {
    await page.getByRole("alert").waitFor();
    assert.match(await page.locator("#boot-status").textContent(), /needs WebAssembly with SIMD: Chrome/);
  },
);
