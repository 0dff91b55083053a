// What every end-to-end test needs: a browser with the project's flags, a page that is being watched, screenshots.
//
// A watched page fails its test when anything goes wrong that a visitor's browser would complain about: an error on
// the console, an uncaught exception (in workers too), a violated content-security policy, a failed request, or a
// request to any other origin than the page's own.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const screenshots = join(here, "..", "screenshots");

/** Address of the page under test. */
export const base = process.env.SERVELAB_URL ?? "";

/** The window sizes that the page is looked at in. */
export const sizes = { wide: { width: 1280, height: 860 }, phone: { width: 360, height: 740 } };

/** The flags shared with the browser tests of the crates; Playwright chooses headless by itself. */
const flags = JSON.parse(readFileSync(join(here, "..", "webdriver.json"), "utf8"))["goog:chromeOptions"].args.filter(
  (flag) => flag !== "--headless",
);

let launched;
// At the top of the file: inside a test it would close the browser after that test.
after(async () => (await launched)?.close());

const launch = (more) =>
  chromium.launch({ executablePath: process.env.SERVELAB_BROWSER ?? "/usr/bin/chromium", args: [...flags, ...more], headless: true });

/** The one browser of this test file. */
export function browser() {
  return (launched ??= launch([]));
}

/** A browser for one test, with flags of its own. */
export const browserWith = launch;

/**
 * Watches a page and lists what goes wrong on it.
 *
 * @param {import("playwright-core").Page} page
 * @param {string} origin the only origin the page may talk to
 * @returns {string[]} the growing list
 */
export async function watch(page, origin) {
  const problems = [];
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => problems.push(`uncaught: ${error.stack ?? error.message ?? error}`));
  page.on("crash", () => problems.push("the page crashed"));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (!["data:", "blob:"].includes(url.protocol) && url.origin !== origin) {
      problems.push(`foreign origin: ${request.url()}`);
    }
  });
  page.on("requestfailed", (request) => {
    const reason = request.failure()?.errorText ?? "unknown reason";
    // A download that the page itself cancelled is no failure.
    if (reason !== "net::ERR_ABORTED") problems.push(`request failed: ${request.url()}: ${reason}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) problems.push(`HTTP ${response.status()}: ${response.url()}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy violated: ${event.violatedDirective} by ${event.blockedURI} (${event.sourceFile})`);
    });
  });
  return problems;
}

/**
 * A test on a watched page.
 *
 * @param {string} name
 * @param {object} options
 *   - `path`: appended to the base address, a fragment for instance
 *   - `size`: `wide` (default) or `phone`
 *   - `scheme`: `light` (default) or `dark`
 *   - `reducedMotion`: `no-preference` (default) or `reduce`
 *   - `locale`: of the browser, `en-US` unless set
 *   - `touch`: true for a screen that is tapped
 *   - `forcedColors`: `none` (default) or `active`
 *   - `timeout`: milliseconds for the whole test, 60 000 unless set
 *   - `open`: false leaves going to the page to the test
 *   - `launched`: a browser of its own ([`browserWith`]), closed after the test
 *   - `serviceWorkers`: "allow" lets the page keep itself for the time without a network; elsewhere it would stand between the page and its test
 *   - `allow`: expressions of problems that this very test provokes
 * @param {(tools: {page, context, shot, problems}) => Promise<void>} body
 */
export function pageTest(name, options, body) {
  const { path = "", size = "wide", scheme = "light", reducedMotion = "no-preference" } = options;
  const { locale = "en-US", touch = false, forcedColors = "none" } = options;
  const { timeout = 60_000, open = true, allow = [], address = base, launched: own, serviceWorkers = "block" } = options;
  test(name, { timeout }, async () => {
    assert.ok(address, "no address: give --url, or run `cargo xtask e2e`");
    const within = await (own ?? browser)();
    const context = await within.newContext({
      viewport: sizes[size],
      colorScheme: scheme,
      reducedMotion,
      locale,
      hasTouch: touch,
      forcedColors,
      permissions: ["clipboard-read", "clipboard-write"],
      serviceWorkers,
    });
    try {
      const page = await context.newPage();
      // Shorter than the test, so that a failure names what was waited for.
      page.setDefaultTimeout(timeout - 5_000);
      const problems = await watch(page, new URL(address).origin);
      if (open) await page.goto(new URL(path, address).href);
      let failure;
      try {
        await body({ page, context, problems, shot: (label, more) => shot(page, label, more) });
      } catch (error) {
        failure = error;
        await shot(page, `failed ${name}`).catch(() => {});
      }
      const unexpected = (await settled(page, problems)).filter((text) => !allow.some((expression) => expression.test(text)));
      // Both are told: what the page complained about is often why the test failed.
      if (failure && unexpected.length) failure.message += `\nThe page complained:\n${unexpected.join("\n")}`;
      if (failure) throw failure;
      assert.deepEqual(unexpected, [], "the page complained");
    } finally {
      await context.close();
      if (own) await within.close();
    }
  });
}

/** Complaints may arrive a moment after what caused them. */
export async function settled(page, problems) {
  await page.waitForTimeout(100).catch(() => {});
  return problems;
}

/**
 * Saves a screenshot under `tests/screenshots/`.
 *
 * @param {object} [options] `size` and `scheme` to switch to first, `fullPage`, or `of`: a part of the page
 */
export async function shot(page, label, { size, scheme, fullPage = false, of } = {}) {
  if (size) await page.setViewportSize(sizes[size]);
  if (scheme) await page.emulateMedia({ colorScheme: scheme });
  mkdirSync(screenshots, { recursive: true });
  const file = [label, size, scheme].filter(Boolean).join("-").replace(/[^A-Za-z0-9]+/g, "-").toLowerCase();
  // Charts are drawn anew by a worker.
  if (size || scheme) await page.waitForTimeout(150);
  const path = join(screenshots, `${file}.png`);
  await (of ? of.screenshot({ path, animations: "disabled" }) : page.screenshot({ path, fullPage, animations: "disabled" }));
}

/** The four pictures of a state: wide and phone, light and dark. */
export async function shotsOf(page, label, options = {}) {
  for (const size of ["wide", "phone"]) {
    for (const scheme of ["light", "dark"]) await shot(page, label, { ...options, size, scheme });
  }
}

/** Waits until the run has ended, and demands that it ended well. */
export async function endedWell(page) {
  await page.waitForFunction(() => ["done", "failed"].includes(document.querySelector("[data-testid=status]")?.textContent));
  // No waiting for an error that is not there.
  const errors = await page.getByTestId("error").allTextContents();
  assert.equal(await page.getByTestId("status").textContent(), "done", errors.join("; "));
}

/** Hit and prompt tokens of the fixed trace under round-robin and under affinity without its guard. */
export const exactReuse = [
  [2464, 10476],
  [7424, 10476],
];

/** The same of the first two rows of the page's table. */
export async function reuseOfTwo(page) {
  const figures = [];
  for (const row of [0, 1]) {
    const cell = page.getByTestId(`reuse-${row}`);
    figures.push([Number(await cell.getAttribute("data-hit")), Number(await cell.getAttribute("data-prompt"))]);
  }
  return figures;
}

/** Which GPU adapter the page would get: null, or its vendor and architecture. */
export function adapterOf(page) {
  return page.evaluate(async () => {
    const adapter = await navigator.gpu?.requestAdapter();
    return adapter ? { vendor: adapter.info.vendor, architecture: adapter.info.architecture } : null;
  });
}
