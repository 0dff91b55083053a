// The cold start: stages shrink when optimisations are ticked, probes beside them, floors of weights to edit.
import assert from "node:assert/strict";
import { endedWell, pageTest, shotsOf } from "./lib.mjs";

const book = { path: "#preset=book-trace", reducedMotion: "reduce" };

/** Opens the view and starts from a named cold start. */
async function open(page, name) {
  await endedWell(page);
  await page.getByTestId("cold").locator("summary").first().click();
  await page.getByTestId("cold-from").selectOption(name);
  await page.getByTestId("cold-stages").waitFor();
}

/** Seconds of a stage; 0 when it is not there. */
const seconds = async (page, stage) => {
  const row = page.getByTestId(`cold-stage-${stage}`);
  return (await row.count()) ? Number(await row.getAttribute("data-seconds")) : 0;
};

/** Waits until a stage takes `expected` seconds, to a tenth. */
const takes = (page, stage, expected) =>
  page.waitForFunction(
    ([stage, expected]) => {
      const row = document.querySelector(`[data-testid=cold-stage-${stage}]`);
      return Math.abs(Number(row?.dataset.seconds ?? 0) - expected) < 0.1;
    },
    [stage, expected],
  );

pageTest("an optimisation shrinks its own stage and stands in the address", book, async ({ page }) => {
  await open(page, "l40s_8b");
  await takes(page, "graph_capture", 54);
  assert.match((await page.getByTestId("cold-sentence").textContent()).replace(/\s/g, " "), /4 min 54 s/);
  const compile = await seconds(page, "compile");
  await page.getByTestId("cold-startup-few_graphs-on").click();
  await takes(page, "graph_capture", 7);
  assert.equal(await seconds(page, "compile"), compile);
  await page.waitForFunction(() => location.hash.includes("startup.few_graphs=on"));
  // Quartered weights: their stages are a quarter, the whole is not.
  await page.getByTestId("cold-startup-bits-4").click();
  await takes(page, "weights_to_host", 15.25);
  await takes(page, "process", 94);
  await page.goBack();
  await takes(page, "weights_to_host", 61);
  await shotsOf(page, "cold start", { fullPage: true });
});

pageTest("a startup probe kills for ever, and a longer budget saves it", book, async ({ page }) => {
  await open(page, "h100_70b");
  await page.getByText("Probes", { exact: true }).click();
  await page.getByLabel("Startup probe", { exact: true }).check();
  await page.getByTestId("cold-probe-startup").waitFor();
  assert.match(await page.getByTestId("cold-sentence").textContent(), /for ever/);
  assert.match(await page.getByTestId("cold-probe-startup").textContent(), /killed at/);
  await shotsOf(page, "cold start killed", { fullPage: true });
  const failures = page.getByLabel("Startup probe, failures", { exact: true });
  await failures.fill("90");
  await failures.press("Enter");
  await page.waitForFunction(() => /into rotation/.test(document.querySelector("[data-testid=cold-probe-startup]").textContent));
  assert.doesNotMatch(await page.getByTestId("cold-sentence").textContent(), /for ever/);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByTestId("cold-manifest").click()]);
  assert.equal(download.suggestedFilename(), "deployment.yaml");
});

pageTest("starting together shares the links; floors follow their fields", book, async ({ page }) => {
  await open(page, "l40s_8b");
  await page.getByTestId("cold-together").fill("4");
  await page.getByTestId("cold-together").press("Enter");
  await page.waitForFunction(() => /Of 4 that start at once/.test(document.querySelector("[data-testid=cold-sentence]").textContent));
  const first = page.getByTestId("floor-0").locator("td").first();
  const before = await first.textContent();
  await page.getByTestId("floor-source-0").fill("4");
  await page.getByTestId("floor-source-0").press("Enter");
  await page.waitForFunction((before) => document.querySelector("[data-testid=floor-0] td").textContent !== before, before);
  assert.match((await first.textContent()).replace(/\s/g, " "), /^4 s/);
  // What is no bandwidth is refused, and said.
  await page.getByTestId("floor-source-0").fill("0");
  await page.getByTestId("floor-source-0").press("Enter");
  await page.getByTestId("cold-error").waitFor();
  assert.match(await page.getByTestId("cold-error").textContent(), /from 0.001/);
});
