// The page of the routing lab: policies as chips, the table sorted, why a request went where it went, predict → run → why.
import assert from "node:assert/strict";
import { endedWell, pageTest, shotsOf } from "./lib.mjs";

const book = "#preset=book-trace";

/** The labels of the chips, in order. */
const chips = (page) => page.getByTestId("policies").locator(".policy-name strong").allTextContents();

/** The positions of the table's rows, as listed in the spec. */
const rows = (page) =>
  page.evaluate(() => [...document.querySelectorAll("[data-testid=results-table] tbody tr")].map((row) => Number(row.dataset.testid.slice(4))));

/** A column's numbers from top to bottom; `column` counts cells after the row's head. */
const numbers = (page, column) =>
  page.evaluate(
    (column) =>
      [...document.querySelectorAll("[data-testid=results-table] tbody tr")].map((row) =>
        Number(row.querySelectorAll("td")[column].firstChild.textContent.replace(/[^0-9.]/g, "")),
      ),
    column,
  );

pageTest("policies are picked, varied and removed as chips", { path: "#preset=multi-tenant", reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  const before = await chips(page);
  assert.equal(before.length, 3);
  const add = page.getByTestId("add-policy");
  await add.click();
  const search = page.getByTestId("policy-search");
  assert.ok(await search.evaluate((field) => field === document.activeElement), "typing searches at once");
  const all = await page.locator("[data-testid^=pick-]").count();
  await search.fill("affinity prefix");
  await page.waitForFunction((all) => document.querySelectorAll("[data-testid^=pick-]").length < all, all);
  // The preset has it with its defaults, so what is added is a variant of it, opened at what makes it one.
  await page.getByTestId("pick-prefix_affinity").click();
  await page.getByTestId("policy-3").waitFor();
  const varied = (await chips(page))[3];
  assert.match(varied, /^Prefix affinity \(.+\)$/);
  assert.equal(await page.getByTestId("policy-3").locator(".policy-name").getAttribute("aria-expanded"), "true");
  assert.match(await page.getByTestId("policy-3").textContent(), /Reads.*Compares.*Fails/s);
  await search.press("Escape");
  await search.waitFor({ state: "detached" });
  assert.ok(await add.evaluate((button) => button === document.activeElement), "focus is back at the button");
  await page.getByTestId("remove-1").click();
  await page.getByTestId("policy-3").waitFor({ state: "detached" });
  assert.deepEqual(await chips(page), [before[0], before[2], varied]);
  await page.getByTestId("run").click();
  await endedWell(page);
  await page.waitForFunction(() => document.querySelectorAll("[data-testid=results-table] tbody tr").length === 3);
  assert.match(await page.getByTestId("row-2").locator("th").textContent(), /^Prefix affinity \(/);
  assert.match(page.url(), /policies=round_robin/);
});

pageTest("six policies are the most, one is the least", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  await page.getByTestId("add-policy").click();
  // Round-robin is there and has no parameter, so it can not be added again.
  await page.getByTestId("pick-round_robin").click({ force: true });
  assert.equal((await chips(page)).length, 4);
  for (const count of [5, 6]) {
    await page.locator("[data-testid^=pick-]:not([aria-disabled=true])").first().click();
    await page.getByTestId(`policy-${count - 1}`).waitFor();
  }
  assert.equal(await page.getByTestId("add-policy").count(), 0);
  for (let left = 6; left > 1; left -= 1) await page.getByTestId("remove-0").click();
  assert.equal((await chips(page)).length, 1);
  assert.equal(await page.getByTestId("remove-0").count(), 0);
});

pageTest("any column sorts the table, best first", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  const listed = await rows(page);
  assert.deepEqual(listed, [0, 1, 2, 3]);
  const sorted = (values, down) => values.every((value, at) => at === 0 || (down ? values[at - 1] >= value : values[at - 1] <= value));
  // Low latency is good, so it ascends at first; much reuse is good, so it descends.
  for (const [column, down] of [[0, false], [7, true]]) {
    const head = page.getByTestId(`sort-${column}`);
    const direction = () => head.locator("xpath=..").getAttribute("aria-sort");
    assert.equal(await direction(), "none");
    await head.click();
    assert.equal(await direction(), down ? "descending" : "ascending");
    assert.ok(sorted(await numbers(page, column), down), `${await numbers(page, column)}`);
    await head.press("Enter");
    assert.equal(await direction(), down ? "ascending" : "descending");
    assert.ok(sorted(await numbers(page, column), !down));
  }
  assert.equal(await page.locator("th[aria-sort=ascending], th[aria-sort=descending]").count(), 1);
  await page.getByTestId("sort-none").click();
  assert.deepEqual(await rows(page), listed);
});

pageTest("a request says why it went where it went", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  const why = page.getByTestId("why");
  await page.locator(".pill:visible").first().click();
  const offers = page.getByTestId("offers");
  await offers.waitFor();
  assert.equal(await offers.locator("thead th").count(), 5, "a column for each replica");
  // What is said, what is marked, and where the request stands are the same replica.
  const choice = async () => (await page.getByTestId("why-choice").textContent()).match(/Replica (\d+)/)[1];
  const marked = async () => (await offers.locator("thead th.why-chosen").textContent()).match(/Replica (\d+)/)[1];
  assert.equal(await choice(), await marked());
  assert.match((await page.getByTestId("why-cost").textContent()).replace(/\s/g, " "), /reckoned with .* prompt tokens computed, and the first token came after/);
  // By number, by the next one, and under another policy.
  await page.getByTestId("why-number").fill("7");
  await page.getByTestId("why-number").press("Enter");
  await page.waitForFunction(() => document.querySelector("[data-testid=why-number]").value === "7");
  await page.getByTestId("why-next").click();
  await page.waitForFunction(() => document.querySelector("[data-testid=why-number]").value === "8");
  await page.getByTestId("focus-2").click();
  await page.waitForFunction(() => /hash/i.test(document.querySelector("[data-testid=why]").textContent));
  // Affinity compares hashes: the highest of the row is the chosen one's.
  const scores = await page.locator("[data-testid^=score-]").allTextContents();
  assert.equal(scores.length, 4);
  const highest = scores.map(Number).indexOf(Math.max(...scores.map(Number)));
  assert.equal(String(highest + 1), await choice());
  await page.getByTestId("why-moment").click();
  await shotsOf(page, "why strip", { fullPage: true });
  // The prompt opens beside, and Escape closes one after the other.
  await page.getByTestId("why-text").click();
  await page.getByTestId("story").locator("dl").waitFor();
  await page.keyboard.press("Escape");
  await page.getByTestId("story").waitFor({ state: "detached" });
  await offers.waitFor();
  await page.keyboard.press("Escape");
  await offers.waitFor({ state: "detached" });
});

pageTest("a question is predicted, run and answered", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  assert.equal(await page.getByTestId("predict").count(), 0, "the fixed trace asks nothing");
  await page.getByTestId("preset").selectOption("caches-shared");
  await page.getByTestId("predict").waitFor();
  // Nothing has run, and nothing of the run before is left to read the answer from.
  assert.match(await page.getByTestId("stage").textContent(), /Predict/);
  assert.equal(await page.getByTestId("results-table").count(), 0);
  assert.equal(await page.getByTestId("verdict").textContent(), "");
  assert.equal(await page.locator(".steps [aria-current=step]").textContent(), "1 predict");
  await page.getByTestId("guess-1").check();
  await shotsOf(page, "predict", { fullPage: true });
  await page.getByTestId("run").click();
  await endedWell(page);
  assert.equal(await page.locator(".steps [aria-current=step]").textContent(), "3 why");
  assert.match(await page.getByTestId("verdict").textContent(), /You were right.*computed 4 times/s);
  await shotsOf(page, "verdict", { fullPage: true });
  // With one replica the same guess is wrong: the answer is of the run, not of the preset.
  const replicas = page.getByLabel("Replicas", { exact: true });
  await replicas.fill("1");
  await replicas.press("Tab");
  assert.equal(await page.getByTestId("verdict").textContent(), "", "a verdict is of the run, which the controls have left");
  await page.getByTestId("run").click();
  await endedWell(page);
  assert.match(await page.getByTestId("verdict").textContent(), /It came out differently.*computed once/s);
});

pageTest("replicas that join are there before they are, and settings appear where they matter", { path: "#preset=scale-out", reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  await page.locator("body").press("Home");
  await page.waitForFunction(() => document.querySelectorAll("[data-testid=stage] .card-away").length === 6);
  await page.locator("body").press("End");
  await page.waitForFunction(() => document.querySelectorAll("[data-testid=stage] .card-away").length === 0);
  // The preset is about it, so the group stands open.
  const join = page.getByLabel("Replicas that join", { exact: true });
  const at = page.getByLabel("They join at", { exact: true });
  assert.ok(await at.isVisible());
  assert.ok(!(await page.getByLabel("They leave at", { exact: true }).isVisible()));
  await join.fill("0");
  await join.press("Tab");
  await at.waitFor({ state: "detached" });
  await shotsOf(page, "scale out", { fullPage: true });
});

pageTest("one's own script runs, and a wrong one is refused with its line", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  await page.getByTestId("add-policy").click();
  await page.getByTestId("pick-script").click();
  await page.getByTestId("policy-search").press("Escape");
  const at = (await chips(page)).length - 1;
  const chip = page.getByTestId(`policy-${at}`);
  if ((await chip.locator(".policy-name").getAttribute("aria-expanded")) !== "true") await chip.locator(".policy-name").click();
  const editor = page.getByTestId(`script-${at}`);
  assert.match(await editor.inputValue(), /fn route\(request, replicas\)/, "it starts from an example");
  await chip.locator("summary").first().click();
  assert.ok((await chip.locator("details tbody tr").count()) > 10, "what it may read is listed");
  await shotsOf(page, "script");
  // Wrong when it runs: the second line asks for a signal that the tier does not have.
  await editor.fill("fn route(request, replicas) {\n  replicas[0].waiting\n}");
  await editor.blur();
  await page.getByTestId("run").click();
  await page.waitForFunction(() => document.querySelector("[data-testid=status]")?.textContent === "failed");
  assert.match((await page.getByTestId("error").allTextContents()).join(" "), /line 2/i);
  await editor.fill("fn route(request, replicas) { replicas[replicas.len() - 1].id }");
  await editor.blur();
  await page.getByTestId("run").click();
  await endedWell(page);
  await page.getByTestId(`row-${at}`).waitFor();
});
