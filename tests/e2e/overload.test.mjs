// Clients, gateways and faults on the page: a storm, a service that stays down, priority classes, and nonsense at its field.
import assert from "node:assert/strict";
import { endedWell, pageTest, shotsOf } from "./lib.mjs";

const calm = { reducedMotion: "reduce", timeout: 120_000 };

const numberIn = async (page, id) => Number((await page.getByTestId(id).textContent()).replace(/[^\d.]/g, ""));

pageTest("a retry storm under three client policies, side by side", { path: "#preset=retry-storm", ...calm }, async ({ page }) => {
  // A question is asked first; whoever does not want to guess runs.
  await page.getByTestId("run").click();
  await endedWell(page);
  const table = page.getByTestId("clients-table");
  await table.waitFor();
  assert.equal(await table.locator("tbody tr").count(), 3);
  for (const at of [0, 1, 2]) assert.ok((await numberIn(page, `amplification-${at}`)) >= 1);
  const chart = page.getByTestId("chart-attempts_over_time");
  await chart.locator("svg").waitFor();
  assert.match(await chart.locator("svg title").textContent(), /attempts per second/);
  assert.ok((await page.getByTestId("refusal-row").count()) > 0, "a full queue and a server that is away turn attempts away");
  await shotsOf(page, "storm", { fullPage: true });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, "nothing makes the page wider than a phone");
});

pageTest("a service that stays down heals when attempts are fewer", { path: "#preset=metastable", ...calm }, async ({ page }) => {
  await page.getByTestId("run").click();
  await endedWell(page);
  const wasted = () => page.getByTestId("clients-row-0").locator("td").nth(6).textContent().then(parseFloat);
  assert.ok((await wasted()) > 30, `of a service that stays down most work is for nobody: ${await wasted()} %`);
  await page.goto(page.url().replace(/#.*/, "#preset=metastable&clients.cancels=on"));
  await page.getByTestId("run").click();
  await endedWell(page);
  await page.waitForFunction(() => parseFloat(document.querySelector("[data-testid=clients-row-0]").querySelectorAll("td")[6].textContent) < 10);
});

pageTest("a gateway tells classes apart and says whom it turned away", { path: "#preset=noisy-tenant&gateway.rate_per_s=1", ...calm }, async ({ page }) => {
  await page.getByTestId("run").click();
  await endedWell(page);
  assert.ok((await page.getByTestId("refusal-row").count()) > 0);
  const causes = await page.getByTestId("refusal-row").allTextContents();
  assert.ok(causes.some((cause) => cause.includes("429")), causes.join("; "));
  await shotsOf(page, "gateway", { fullPage: true });
});

pageTest("a class whose weight is no number is refused at its field", { path: "#preset=batch-beside-interactive", ...calm }, async ({ page }) => {
  await page.getByTestId("run").click();
  await endedWell(page);
  assert.ok((await page.getByTestId("class-row").count()) >= 2);
  const field = page.getByTestId("classes");
  await field.fill("batch(weight=many)");
  await field.press("Tab");
  await page.locator("#set-gateway-classes[aria-invalid=true]").waitFor();
  assert.ok((await page.locator(".param-bad .param-error").first().textContent()).length > 10);
});
