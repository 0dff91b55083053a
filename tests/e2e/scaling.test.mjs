// Autoscalers on the page: who was late and what it cost, where the delay went, controllers as chips, one's own curve.
import assert from "node:assert/strict";
import { endedWell, pageTest, shotsOf } from "./lib.mjs";

// Thirty-six minutes with a step in demand, a cold start of some minutes, two controllers.
const curve = "0:0.3,0.2:0.3,0.21:1.2,0.6:1.2";
const two = "kubernetes_hpa(signal=7,metric_type=0,target=6),naive_ratio";
const open = {
  path: `#preset=node-loss&events.crash=0&workload.curve=${encodeURIComponent(curve)}&replicas=2&scaling.controllers=${encodeURIComponent(two)}`,
  reducedMotion: "reduce",
};

/** Runs whatever the controls say and waits for its end. */
async function run(page) {
  await page.getByTestId("run").click();
  await endedWell(page);
  await page.getByTestId("scaling-table").waitFor();
}

const late = (page, at) => page.getByTestId(`late-${at}`).getAttribute("data-seconds").then(Number);

pageTest("two controllers on the same day: late users, cost, and the way to relief", open, async ({ page }) => {
  await endedWell(page);
  assert.equal(await page.getByTestId("scaling-table").locator("tbody tr").count(), 2);
  assert.ok((await late(page, 0)) > 60, "a cold start of minutes leaves users late");
  assert.match(await page.getByTestId("findings").textContent(), /the longest part was/);
  const parts = await page.getByTestId("delays").first().locator("li").allTextContents();
  assert.ok(parts.some((part) => part.startsWith("Weights to host")) && parts.length >= 4, parts.join(", "));
  const chart = page.getByTestId("chart-demand_and_capacity");
  await chart.locator("svg").waitFor();
  assert.match(await chart.locator("svg title").textContent(), /Users were late/);
  await shotsOf(page, "scaling", { fullPage: true });
  // The last picture was a phone's.
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, "nothing makes the page wider than a phone");
  await page.getByTestId("exports").locator("summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByTestId("export-configuration").last().click()]);
  assert.match(download.suggestedFilename(), /\.ya?ml$/);
});

pageTest("controllers come and go, and a curve that is none is refused at its field", open, async ({ page }) => {
  await endedWell(page);
  await page.getByTestId("remove-controller-1").click();
  await page.waitForFunction(() => !decodeURIComponent(location.hash).includes("naive_ratio"));
  await page.getByTestId("add-controller").selectOption("oracle");
  await page.getByTestId("controller-1").waitFor();
  const field = page.getByTestId("curve");
  await field.fill("0:0.3,0.2:many");
  await field.press("Tab");
  await page.locator("#set-workload-curve[aria-invalid=true]").waitFor();
  assert.match(await page.locator(".param-bad .param-error").first().textContent(), /0\.2:many/);
  await field.fill("0:0.3,0.3:0.3");
  await field.press("Tab");
  await page.locator("#set-workload-curve[aria-invalid=false]").waitFor();
  await page.getByTestId("curve-file").setInputFiles({ name: "day.csv", mimeType: "text/csv", buffer: Buffer.from("hour,level\n0,0.3\n0.25,0.9\n") });
  await page.waitForFunction(() => document.querySelector("[data-testid=curve]").value === "0:0.3, 0.25:0.9");
  await run(page);
  assert.equal(await page.getByTestId("scaling-table").locator("tbody tr").count(), 2);
});

pageTest("a curve is drawn", open, async ({ page, shot }) => {
  await endedWell(page);
  const pad = page.getByTestId("curve-pad");
  await pad.scrollIntoViewIfNeeded();
  const box = await pad.boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.9);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.75, box.y + box.height * 0.9, { steps: 3 });
  await page.mouse.up();
  const text = (await page.getByTestId("curve").inputValue()).replaceAll(" ", "");
  assert.notEqual(text, curve);
  // The middle of 0.6 hours lies low now, the start and the end as they were.
  const level = Object.fromEntries(text.split(",").map((pair) => pair.split(":").map(Number)));
  assert.ok(level[0.3] < 0.3 && level[0] === 0.3 && level[0.6] === 1.2, text);
  const of = page.locator(".param", { has: page.getByTestId("curve") });
  await shot("curve drawn", { of, size: "wide", scheme: "light" });
  await shot("curve drawn", { of, size: "phone", scheme: "dark" });
});

pageTest("every signal is asked whether it saw the first late user coming", open, async ({ page, shot }) => {
  await endedWell(page);
  const view = page.getByTestId("foresight");
  await view.locator("summary").first().click();
  await page.getByTestId("foresight-ask").click();
  const table = page.getByTestId("foresight-table");
  await table.waitFor();
  assert.equal(await table.locator("tbody tr").count(), 13);
  const lead = (name) => page.getByTestId(`foresight-${name}`).getAttribute("data-seconds").then(Number);
  assert.ok((await lead("in_flight")) > (await lead("ttft_p95")), "what is in flight is known before the first tokens are late");
  assert.match(await page.getByTestId("foresight-said").textContent(), /first late user/);
  await shot("signals", { of: view, size: "wide", scheme: "light" });
  await shot("signals", { of: view, size: "phone", scheme: "dark" });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, "nothing makes the page wider than a phone");
});
