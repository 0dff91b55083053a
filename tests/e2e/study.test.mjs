// Sweeps and knees on the page: numbers against the same runs alone, cancel with what had finished, stale, failed, and phone width.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { base, endedWell, pageTest, shotsOf } from "./lib.mjs";

const tenants = "#preset=multi-tenant&workload.requests=100&policies=round_robin,prefix_affinity";

/** Two-sided 97.5 % point of Student's t with one degree of freedom, from any table. */
const T1 = 12.706;

/** What a button lets one save. */
async function saved(page, button) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByTestId(button).click()]);
  return readFileSync(await download.path(), "utf8");
}

/** Opens the section and says which values the first axis takes. */
async function openStudy(page) {
  await page.getByTestId("study-open").click();
  await page.getByTestId("sweep").waitFor();
}

async function listed(page, at, key, values) {
  await page.getByTestId(`axis-${at}`).selectOption(key);
  await page.getByTestId(`axis-${at}-spacing`).selectOption("list");
  await page.getByTestId(`axis-${at}-list`).fill(values);
  await page.getByTestId(`axis-${at}-list`).press("Tab");
}

async function seeds(page, name, count) {
  await page.getByTestId(`${name}-seeds`).fill(String(count));
  await page.getByTestId(`${name}-seeds`).press("Tab");
}

/** Runs it to its end. */
async function runs(page, name) {
  await page.getByTestId(`${name}-run`).click();
  await page.waitForFunction((name) => ["done", "failed"].includes(document.querySelector(`[data-testid=${name}-status]`)?.textContent), name);
  const errors = await page.getByTestId(`${name}-error`).allTextContents();
  assert.equal(await page.getByTestId(`${name}-status`).textContent(), "done", errors.join("; "));
}

/** The report of one run by itself, on a page of its own. */
async function alone(context, fragment) {
  const page = await context.newPage();
  await page.goto(new URL(fragment, base).href);
  await endedWell(page);
  await page.getByTestId("exports").locator("summary").click();
  const report = JSON.parse(await saved(page, "export-json"));
  await page.close();
  return report;
}

const near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b));

/** The figures of a cell are those of the run alone, to the bit. */
function sameFigures(cell, report) {
  assert.equal(cell.policies.length, report.policies.length);
  cell.policies.forEach((figures, at) => {
    const policy = report.policies[at];
    assert.equal(figures.ttft_p95_s, policy.ttft_s.p95);
    assert.equal(figures.ttft_p50_s, policy.ttft_s.p50);
    assert.equal(figures.goodput_per_s, policy.goodput.per_s);
    assert.equal(figures.reuse, policy.reuse.ratio);
    assert.equal(figures.output_tokens_per_s, policy.output_tokens_per_s);
  });
}

pageTest("one setting is swept, and every cell is the run alone", { path: tenants, reducedMotion: "reduce", timeout: 120_000 }, async ({ page, context }) => {
  await endedWell(page);
  assert.equal(await page.getByTestId("sweep").count(), 0, "closed until somebody asks");
  await openStudy(page);
  assert.equal(await page.getByTestId("axis-0").inputValue(), "workload.rate", "the load is what is asked about most");
  await listed(page, 0, "workload.rate", "0.5, 1, 2");
  await seeds(page, "sweep", 2);
  assert.match(await page.getByTestId("sweep-planned").textContent(), /3 points × 2 seeds = 6 runs/);
  await runs(page, "sweep");
  const sweep = JSON.parse(await saved(page, "sweep-json"));
  assert.deepEqual(sweep.cells.map((cell) => [cell.cell, cell.point, cell.seed]), [[0, 0, 7], [1, 0, 8], [2, 1, 7], [3, 1, 8], [4, 2, 7], [5, 2, 8]]);
  for (const [cell, rate, seed] of [[1, 0.5, 8], [4, 2, 7]]) {
    sameFigures(sweep.cells[cell], await alone(context, `${tenants}&workload.rate=${rate}&seed=${seed}`));
  }
  // Mean and interval over two seeds by hand: half their sum, and t · |difference| ÷ 2 to each side.
  for (const point of sweep.points) {
    const [a, b] = sweep.cells.filter((cell) => cell.point === point.point);
    point.policies.forEach((policy, at) => {
      const [x, y] = [a.policies[at].ttft_p95_s, b.policies[at].ttft_p95_s];
      const band = policy.mean.ttft_p95_s;
      assert.ok(near(band.mean, (x + y) / 2) && near(band.high - band.mean, (T1 * Math.abs(x - y)) / 2), JSON.stringify(band));
    });
    const [x, y] = [a, b].map((cell) => cell.policies[1].ttft_p95_s - cell.policies[0].ttft_p95_s);
    const versus = point.policies[1].versus_first.ttft_p95_s;
    assert.ok(near(versus.mean, (x + y) / 2));
    assert.equal(versus.significant, Math.abs(x + y) / 2 > (T1 * Math.abs(x - y)) / 2);
  }
  // The picture, the sentence and the table are of this sweep.
  await page.locator("#sweep_lines-title").waitFor({ state: "attached" });
  assert.match(await page.getByTestId("sweep-findings").textContent(), /Round-robin|Prefix affinity/);
  await page.getByTestId("sweep-result").locator("summary", { hasText: "numbers of the sweep" }).click();
  assert.equal(await page.getByTestId("sweep-table").locator("tbody tr").count(), 3);
  await page.getByTestId("sweep-figure").selectOption("reuse");
  await page.waitForFunction(() => /reuse/.test(document.querySelector("#sweep_lines-title")?.textContent));
  const csv = (await saved(page, "sweep-csv")).trim().split("\n");
  assert.equal(csv.length, 1 + 3 * 2 * (1 + 2), "a row for each point and policy, and under it one for each seed");
  await shotsOf(page, "sweep lines", { fullPage: true });
  // Stale as soon as the form or a control says something else, and no longer when it says the same again.
  const stale = page.getByTestId("sweep-stale");
  assert.equal(await stale.count(), 0);
  await seeds(page, "sweep", 3);
  await stale.waitFor();
  await seeds(page, "sweep", 2);
  await stale.waitFor({ state: "detached" });
  await page.setViewportSize({ width: 1280, height: 860 });
  await page.locator("#set-replicas").fill("5");
  await page.locator("#set-replicas").press("Tab");
  await stale.waitFor();
});

pageTest("two settings make a map, alone and as a difference", { path: tenants, reducedMotion: "reduce", timeout: 120_000 }, async ({ page, context }) => {
  await endedWell(page);
  await openStudy(page);
  await listed(page, 0, "workload.rate", "0.5, 1.3");
  await listed(page, 1, "replicas", "2, 4");
  await seeds(page, "sweep", 2);
  await runs(page, "sweep");
  const sweep = JSON.parse(await saved(page, "sweep-json"));
  assert.deepEqual(sweep.points.map((point) => point.at), [[0.5, 2], [0.5, 4], [1.3, 2], [1.3, 4]]);
  sameFigures(sweep.cells[6], await alone(context, `${tenants}&workload.rate=1.3&replicas=4`));
  await page.locator("#sweep_map-title").waitFor({ state: "attached" });
  // What stands in the fields is the means; the best of them stands in the title.
  const title = () => page.locator("#sweep_map-title").textContent();
  assert.match(await title(), /How does TTFT p95 with Round-robin depend on both\?/);
  await page.getByTestId("map-of").selectOption("1");
  await page.getByTestId("map-against").selectOption("0");
  await page.waitForFunction(() => /Where does Prefix affinity differ/.test(document.querySelector("#sweep_map-title")?.textContent));
  const beyond = sweep.points.filter((point) => point.policies[1].versus_first.ttft_p95_s.significant).length;
  const [, better, worse, noise] = (await title()).match(/better at (\d+), worse at (\d+), alike within noise at (\d+)/);
  assert.equal(Number(better) + Number(worse), beyond);
  assert.equal(Number(noise), 4 - beyond);
  await shotsOf(page, "sweep map", { fullPage: true });
});

pageTest("the knee is found, and the run at it keeps the limits", { path: tenants, reducedMotion: "reduce", timeout: 180_000 }, async ({ page, context }) => {
  await endedWell(page);
  await openStudy(page);
  await seeds(page, "knee", 2);
  await runs(page, "knee");
  const report = JSON.parse(await saved(page, "knee-json"));
  assert.equal(report.trials.length, 4);
  const { ttft_s } = report.knee.spec.slo;
  const trial = report.trials.find((trial) => trial.end === "found");
  assert.ok(trial, "a knee was found");
  const policy = report.knee.spec.policies[trial.policy].name;
  const worse = trial.probes.filter((probe) => !probe.good && probe.rate_per_s > trial.per_s).sort((a, b) => a.rate_per_s - b.rate_per_s)[0];
  assert.ok(worse.rate_per_s <= 1.02 * trial.per_s + 1e-9, "the next rate that is not good is two per cent away");
  // The knee and the rate beyond it, each as a run by itself.
  for (const [rate, good] of [[trial.per_s, true], [worse.rate_per_s, false]]) {
    const run = await alone(context, `#preset=multi-tenant&workload.requests=100&policies=${policy}&workload.rate_unit=per_second&workload.rate=${rate}&seed=${trial.seed}`);
    const [{ ttft_s: ttft, goodput }] = run.policies;
    assert.equal(ttft.p95 <= ttft_s && goodput.fraction >= 0.95, good, `${rate}: ${ttft.p95}, ${goodput.fraction}`);
    const probe = trial.probes.find((probe) => probe.rate_per_s === rate);
    assert.deepEqual([probe.ttft_p95_s, probe.goodput_fraction, probe.good], [ttft.p95, goodput.fraction, good]);
  }
  // Per replica it is a quarter of it, and stands in the table, in the sentence and at the mark.
  const known = report.trials.filter((other) => other.policy === trial.policy && other.end === "found").map((other) => other.per_s / 4);
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  assert.ok(near(report.policies[trial.policy].per_replica_per_s.mean, mean));
  const shown = Number((await page.getByTestId(`knee-row-${trial.policy}`).locator("td").first().textContent()).match(/[\d.]+/)[0]);
  assert.ok(Math.abs(shown / mean - 1) < 0.01, `${shown} for ${mean}`);
  await page.locator("#knee_goodput-title").waitFor({ state: "attached" });
  assert.ok((await page.getByTestId("knee-goodput").locator("svg text").allTextContents()).includes(`knee ${mean.toFixed(3)}`));
  assert.match(await page.getByTestId("knee-findings").textContent(), /keeps the limits up to [\d.]+ requests\/s per replica/);
  await shotsOf(page, "knee", { fullPage: true });
});

pageTest("a sweep that is cancelled keeps what had finished", { path: `${tenants}&workload.requests=3000`, reducedMotion: "reduce", timeout: 120_000 }, async ({ page }) => {
  await endedWell(page);
  await openStudy(page);
  await page.getByTestId("axis-0-steps").fill("60");
  await page.getByTestId("axis-0-steps").press("Tab");
  await page.getByTestId("sweep-run").click();
  const progress = page.getByTestId("sweep-progress");
  await page.waitForFunction(() => /^[1-9]\d* of 300 on/.test(document.querySelector("[data-testid=sweep-progress]").textContent.replace(/\u202f/g, "")));
  const cores = await page.evaluate(() => navigator.hardwareConcurrency);
  assert.match(await progress.textContent(), new RegExp(`on ${Math.min(cores, 8)} worker`));
  // The page answers meanwhile.
  await page.locator(".head-tools button").first().click();
  await page.getByTestId("sweep-cancel").click();
  await page.waitForFunction(() => /cancelled/.test(document.querySelector("[data-testid=sweep-status]").textContent));
  const sweep = JSON.parse(await saved(page, "sweep-json"));
  assert.ok(sweep.cells.length > 0 && sweep.cells.length < 300 && sweep.cells_total === 300, `${sweep.cells.length}`);
  await page.locator("#sweep_lines-title").waitFor({ state: "attached" });
  assert.equal(await page.getByTestId("sweep-run").count(), 1, "it can be run again");
});

pageTest("what can not be swept or has no knee is said before it runs", { path: "#preset=book-trace", reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  await openStudy(page);
  assert.equal(await page.getByTestId("axis-0").inputValue(), "replicas", "a fixed trace has no rate");
  assert.match(await page.getByTestId("knee-fault").textContent(), /rate can be set/);
  assert.ok(await page.getByTestId("knee-run").isDisabled());
  await listed(page, 0, "replicas", "2, 0");
  assert.match(await page.getByTestId("sweep-fault").textContent(), /replicas: 0/i);
  assert.ok(await page.getByTestId("sweep-run").isDisabled());
  await listed(page, 0, "replicas", "2, 3");
  await page.waitForFunction(() => !document.querySelector("[data-testid=sweep-run]").disabled);
});

pageTest("sweeps fit a phone and follow the keyboard", { path: tenants, size: "phone", scheme: "dark", reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  await page.getByTestId("study-open").focus();
  await page.keyboard.press("Enter");
  await page.getByTestId("sweep").waitFor();
  // Past the terms of the note, which explain themselves on focus.
  const at = () => page.evaluate(() => document.activeElement.dataset.testid ?? document.activeElement.dataset.term);
  const stops = [];
  do {
    await page.keyboard.press("Tab");
    stops.push(await at());
  } while (stops.at(-1) !== "axis-0" && stops.length < 8);
  assert.equal(stops.at(-1), "axis-0", stops.join(", "));
  await listed(page, 0, "workload.rate", "0.5, 1");
  await page.getByTestId("axis-1").selectOption({ index: 1 });
  await page.getByTestId("axis-1").selectOption("");
  await seeds(page, "sweep", 1);
  await runs(page, "sweep");
  await page.locator("#sweep_lines-title").waitFor({ state: "attached" });
  assert.match(await page.getByTestId("sweep-findings").textContent(), /single seed/);
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= window, `${wide} > ${window}`);
});

pageTest("a script takes effect while it is typed, and an emptied editor stays empty", { path: "#preset=book-trace", reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  await page.getByTestId("add-policy").click();
  await page.getByTestId("pick-script").click();
  await page.getByTestId("policy-search").press("Escape");
  const chip = page.getByTestId("policy-4");
  if ((await chip.locator(".policy-name").getAttribute("aria-expanded")) !== "true") await chip.locator(".policy-name").click();
  const editor = page.getByTestId("script-4");
  // Without leaving the editor.
  await editor.fill("fn route(request, replicas) { replicas[0].id }");
  await page.waitForFunction(() => /script%28|script\(/.test(location.hash) && /script%3D|script=/.test(location.hash));
  await editor.press("Control+Enter");
  await endedWell(page);
  await page.waitForFunction(() => document.querySelectorAll("[data-testid=results-table] tbody tr").length === 5);
  assert.ok(await editor.evaluate((field) => field === document.activeElement), "one goes on writing");
  await editor.fill("");
  await chip.getByText("Nothing stands here").waitFor();
  await page.waitForTimeout(600);
  assert.equal(await editor.inputValue(), "");
  await chip.getByRole("button", { name: "Sticky by session, with overflow" }).click();
  await page.waitForFunction(() => /fn route/.test(document.querySelector("[data-testid=script-4]").value));
});
