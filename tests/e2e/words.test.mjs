// Terms that explain themselves, figures of latencies, tables taken away, the command for a terminal, numbers by locale.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { base, endedWell, pageTest, shot, shotsOf } from "./lib.mjs";

const book = { path: "#preset=book-trace", reducedMotion: "reduce" };
const note = (page) => page.getByTestId("term-note");

/** The note says this, beside what it explains. */
async function explains(page, term, words) {
  await page.waitForFunction((words) => document.querySelector(".term-note:popover-open")?.textContent.includes(words), words);
  const [of, box] = [await term.boundingBox(), await note(page).boundingBox()];
  assert.ok(Math.abs(box.y - of.y - of.height) <= 2 || Math.abs(box.y + box.height - of.y) <= 2, "it stands below or above its term");
  const { width } = page.viewportSize();
  assert.ok(box.x >= 0 && box.x + box.width <= width, "and within the window");
}

const gone = (page) => page.waitForFunction(() => !document.querySelector(".term-note:popover-open"));

pageTest("a term explains itself to the pointer, to the keyboard and to a screen reader", book, async ({ page }) => {
  await endedWell(page);
  const ttft = page.getByTestId("results-table").locator("[data-term=ttft]");
  await ttft.hover();
  await explains(page, ttft, "Time to first token");
  // The pointer may go onto what it reads.
  await note(page).hover();
  await explains(page, ttft, "Time to first token");
  await shot(page, "term");
  await page.mouse.move(2, 2);
  await gone(page);
  const reuse = page.getByTestId("sort-7");
  await reuse.focus();
  await explains(page, reuse, "Prompt tokens served from cache");
  assert.match(await note(page).textContent(), /Sort by this column/, "and what pressing it does");
  await page.keyboard.press("Escape");
  await gone(page);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.term), "reuse", "the focus stays");
  // Described for those who do not see it: the words of the one list.
  const described = await page.evaluate(() => [...document.querySelectorAll("[data-term]")].filter((of) => !document.getElementById(of.getAttribute("aria-describedby"))?.textContent).length);
  assert.equal(described, 0);
});

pageTest("terms stand in questions, findings, notes of settings and under charts", { path: "#preset=scale-out", reducedMotion: "reduce", timeout: 120_000 }, async ({ page }) => {
  await page.locator(".question h1 [data-term=ttft]").waitFor();
  assert.match(await page.locator(".question h1").textContent(), /^I went from 2 to 8 replicas and TTFT got worse: why\?$/, "the question reads as it did");
  await page.getByTestId("run").click();
  await endedWell(page);
  await page.getByTestId("chart-ttft_over_time").locator(".read-out [data-term]").first().waitFor();
  for (const place of ["[data-testid=findings]", "[data-testid=verdict]", ".controls"]) {
    assert.ok((await page.locator(`${place} [data-term]`).count()) > 0, place);
  }
});

pageTest("all terms stand in one list", book, async ({ page }) => {
  await endedWell(page);
  const glossary = page.getByTestId("glossary");
  await glossary.locator("summary").click();
  const terms = await glossary.locator("dt").allTextContents();
  // Words that the project has one meaning for.
  for (const term of ["Request", "Sequence", "KV block", "Slot", "Block table", "Prefill", "Decode", "Step", "Replica", "Router", "Policy", "Gateway", "Tenant", "Session", "TTFT", "ITL", "E2E", "Goodput", "Reuse", "Imbalance", "Preemption", "Cold start", "Drain", "Attempt", "Amplification"]) {
    assert.ok(terms.includes(term), term);
  }
  await shotsOf(page, "glossary", { of: glossary });
});

pageTest("on a phone a term explains itself to a tap, and another tap ends it", { ...book, size: "phone", touch: true }, async ({ page }) => {
  await endedWell(page);
  const term = page.getByTestId("findings").locator("[data-term]").first();
  await term.scrollIntoViewIfNeeded();
  await term.tap();
  await page.waitForFunction(() => document.querySelector(".term-note:popover-open")?.textContent.length > 10);
  const box = await note(page).boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 360);
  await shot(page, "term tapped");
  await page.locator(".results h2").first().tap();
  await gone(page);
});

pageTest("every latency over time as mean, p50, p95 or p99", book, async ({ page }) => {
  await endedWell(page);
  const chart = page.getByTestId("chart-ttft_over_time");
  const title = () => chart.locator("svg title").textContent();
  await chart.locator("svg title").waitFor({ state: "attached" });
  assert.match(await title(), /^Half of all first tokens/);
  for (const [button, begins] of [["statistic-p95", "95 % of all first tokens"], ["latency-E2E", "95 % of all answers are complete"], ["latency-wait", "95 % of all requests wait at most"], ["statistic-mean", "Requests wait, on average"]]) {
    await chart.getByTestId(button).click();
    await page.waitForFunction((begins) => document.querySelector("[data-testid=chart-ttft_over_time] svg title").textContent.replace(/\s/g, " ").startsWith(begins), begins);
    assert.equal(await chart.getByTestId(button).getAttribute("aria-pressed"), "true");
  }
  // The summary that is read out is of the same figure.
  assert.match(await chart.locator(".read-out").textContent(), /^Mean wait in the queue/);
  await shotsOf(page, "statistic", { of: chart });
});

/** Rows and cells of a CSV file; no cell of these tests has a line break. */
const csv = (text) => text.trim().split("\n").map((line) => [...`,${line}`.matchAll(/,("(?:[^"]|"")*"|[^,"]*)/g)].map((cell) => cell[1]));

/** What a table's small button saves. */
async function saved(page, table, kind) {
  const box = page.locator(".table-box", { has: page.getByTestId(table) }).locator("xpath=following-sibling::details[1]");
  if (!(await box.evaluate((details) => details.open))) await box.locator("summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), box.getByTestId(`table-${kind}`).click()]);
  return [readFileSync(await download.path(), "utf8"), download.suggestedFilename()];
}

for (const locale of ["en-US", "de-DE"]) {
  pageTest(`tables leave as they stand, with numbers that programs read (${locale})`, { ...book, locale }, async ({ page }) => {
    await endedWell(page);
    const [text, name] = await saved(page, "results-table", "csv");
    assert.equal(name, "servelab-results.csv");
    const [head, ...rows] = csv(text);
    assert.deepEqual(rows.map((row) => row.length), rows.map(() => head.length), text);
    assert.ok(head.includes("TTFT ms p50") && head.includes("Imbalance max ÷ mean requests"), head.join(" | "));
    // The exact numbers are known: 2 464 and 7 424 of 10 476 tokens.
    const reuse = head.indexOf("Reuse of prompt tokens");
    assert.deepEqual([rows[0], rows[2]].map((row) => [row[reuse], row[reuse + 1]]), [["23.5 %", "2464 / 10476"], ["70.9 %", "7424 / 10476"]]);
    const ttft = rows.map((row) => Number(row[head.indexOf("TTFT ms p50")]));
    assert.ok(ttft.slice(0, -1).every((ms) => ms > 0), text);
    // On the page they stand as this visitor writes them.
    const shown = (await page.getByTestId("reuse-0").textContent()).replace(/\s/g, " ");
    assert.match(shown, locale === "de-DE" ? /^23,5 %.*2\.464 \/ 10\.476/ : /^23\.5 %.*2,464 \/ 10,476/);
    const [markdown] = await saved(page, "results-table", "markdown");
    assert.match(markdown, /^\| Policy \| TTFT ms p50 \|/);
    assert.equal(markdown.trim().split("\n").length, rows.length + 2);
    if (locale === "de-DE") {
      assert.match((await page.getByTestId("findings").textContent()).replace(/\s/g, " "), /\d,\d/, "sentences of the lab, too");
      await shot(page, "locale de", { fullPage: true });
    }
  });
}

pageTest("every table has its small button", { ...book, open: false, timeout: 120_000 }, async ({ page }) => {
  for (const [path, tables] of [
    ["#preset=retry-storm", ["results-table", "clients-table"]],
    ["#preset=noisy-tenant&gateway.rate_per_s=1", ["refusal-table"]],
  ]) {
    await page.goto(new URL(path, base).href);
    await page.reload();
    await page.getByTestId("run").click();
    await endedWell(page);
    for (const table of tables) {
      const [text] = await saved(page, table, "csv");
      const shown = await page.getByTestId(table).locator("tbody tr").count();
      assert.ok(csv(text).length > shown && shown > 0, `${table}: ${text}`);
    }
    const without = await page.evaluate(() => [...document.querySelectorAll("table")].filter((table) => !table.closest(".table-box")?.nextElementSibling?.matches(".table-save")).map((table) => table.dataset.testid ?? table.className));
    assert.deepEqual(without, []);
  }
});

pageTest("the keyboard's focus stays where its reader is", { path: "#preset=multi-tenant", reducedMotion: "reduce", timeout: 120_000 }, async ({ page }) => {
  await endedWell(page);
  const held = () => page.waitForFunction(() => document.activeElement !== document.body && document.activeElement?.isConnected);
  for (const [name, then] of [["try", "engine.blocks=1024"], ["next-lesson", "preset=hot-tenant"]]) {
    await page.getByTestId(name).focus();
    await page.keyboard.press("Enter");
    await page.waitForFunction((then) => location.hash.includes(then), then);
    await held();
    if (name === "try") await endedWell(page);
  }
  await page.getByTestId("remove-0").focus();
  await page.keyboard.press("Enter");
  await held();
});

pageTest("the command for a terminal names what was set", { path: "#preset=multi-tenant&replicas=3&workload.requests=40", reducedMotion: "reduce" }, async ({ page }) => {
  await endedWell(page);
  assert.equal(await page.getByTestId("terminal").count(), 0);
  await page.getByTestId("open-terminal").click();
  const said = await page.getByTestId("terminal-command").textContent();
  assert.equal(said, "servelab run '#v=1&preset=multi-tenant&replicas=3&workload.requests=40' --format json");
  await page.getByTestId("terminal-copy").click();
  await page.getByTestId("terminal-copy").getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), said);
  await shotsOf(page, "terminal");
});
