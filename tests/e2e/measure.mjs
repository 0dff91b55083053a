// How busy the page's own thread is, and how soon the page can be used: for the tests, which hold it to a mark, and for `cargo xtask bench`, which prints it.
// What counts is the thread's CPU time, by the browser's own trace: on a machine that others keep busy the clock says how busy those are.

/** What the page's thread did while `body` ran: its tasks in ms of CPU, and the pictures that it drew. */
export async function traced(browser, page, body) {
  await browser.startTracing(page, { categories: ["devtools.timeline", "disabled-by-default-devtools.timeline.frame", "toplevel"] });
  await body();
  const { traceEvents } = JSON.parse(await browser.stopTracing());
  // Workers have threads of their own in the same process.
  const { pid, tid } = mainThread(traceEvents);
  const here = traceEvents.filter((event) => event.pid === pid && event.tid === tid && event.ph === "X");
  const tasks = here.filter((event) => event.name.endsWith("RunTask") && event.tdur !== undefined).map((event) => event.tdur / 1000);
  const called = (name) => here.filter((event) => event.name === name);
  const heard = called("HandlePostMessage");
  const during = (event) => heard.some((other) => other.ts <= event.ts && event.ts < other.ts + other.dur);
  // Not as arguments of a call: a trace may have more events than a call takes.
  const [first, last] = here.reduce(([first, last], { ts }) => [Math.min(first, ts), Math.max(last, ts)], [Infinity, 0]);
  const seconds = (last - first) / 1e6;
  return { tasks, seconds, frames: called("FireAnimationFrame").length, heard: heard.length, forced: called("Layout").filter(during).length };
}

/** Of the renderers' main threads the one that did most. */
function mainThread(events) {
  const mains = events.filter((event) => event.name === "thread_name" && event.args.name === "CrRendererMain");
  const busy = ({ pid, tid }) => events.reduce((sum, event) => sum + (event.pid === pid && event.tid === tid ? (event.tdur ?? 0) : 0), 0);
  return mains.sort((a, b) => busy(b) - busy(a))[0];
}

export function spread(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return { p99: at(0.99), most: sorted.at(-1) ?? 0, sum: sorted.reduce((sum, value) => sum + value, 0) };
}

/** Asks a page that is there for the run in its controls, and waits for its end. */
export async function runOnce(page) {
  await page.getByTestId("run").click();
  await page.waitForTimeout(50);
  await ended(page);
}

export function ended(page) {
  const over = () => ["done", "failed"].includes(document.querySelector("[data-testid=status]")?.textContent);
  return page.waitForFunction(over, undefined, { timeout: 600_000, polling: 100 });
}

/** Plays the run on the page from its start for some milliseconds. */
export async function play(page, ms) {
  await page.getByTestId("stage").scrollIntoViewIfNeeded();
  // A quick run plays by itself, a slow one was watched and stands at its end.
  await page.getByTestId("scrub").fill("0");
  if ((await page.getByTestId("play").getAttribute("aria-label")) === "Play") await page.getByTestId("play").click();
  await page.waitForTimeout(ms);
}

/** To be called before the page is gone to; then `usable` says how long after its wasm had come it could be used, ms. */
export function watchStart(page) {
  return page.addInitScript(() => {
    const look = new MutationObserver(() => {
      window.shown ??= document.querySelector("#main") ? performance.now() : undefined;
      window.ready ??= ["running", "done"].includes(document.querySelector("[data-testid=status]")?.textContent) ? performance.now() : undefined;
      if (window.ready) look.disconnect();
    });
    look.observe(document, { subtree: true, childList: true, characterData: true });
  });
}

export async function usable(page) {
  await page.waitForFunction(() => window.ready, undefined, { timeout: 60_000 });
  return page.evaluate(() => {
    const wasm = performance.getEntriesByType("resource").find((entry) => /servelab-web-.*wasm/.test(entry.name));
    return { shown: window.shown - wasm.responseEnd, ready: window.ready - wasm.responseEnd };
  });
}
