// The page with priced runs: the exact figures, addresses, cancelling, keyboard, stories, charts, files, pictures.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { base, endedWell, pageTest, shotsOf } from "./lib.mjs";

const book = "#preset=book-trace";

/** Waits until the run has ended and gives the word it ended with. */
async function ended(page) {
  await page.waitForFunction(() => ["done", "failed"].includes(document.querySelector("[data-testid=status]")?.textContent));
  return page.getByTestId("status").textContent();
}

/** Hit and prompt tokens of every row, by the policy's name. */
async function reuse(page) {
  await page.getByTestId("row-0").waitFor();
  return page.evaluate(() => {
    const rows = [...document.querySelectorAll("[data-testid^=row-]")];
    return Object.fromEntries(
      rows.map((row, at) => {
        const cell = row.querySelector(`[data-testid=reuse-${at}]`);
        const name = row.querySelector("th").firstChild.textContent;
        return [name, [Number(cell.dataset.hit), Number(cell.dataset.prompt), cell.textContent]];
      }),
    );
  });
}

const named = (rows, start, end = "") => {
  const name = Object.keys(rows).find((name) => name.toLowerCase().startsWith(start) && name.includes(end));
  assert.ok(name, `no row ${start} … ${end} in ${Object.keys(rows).join(", ")}`);
  return rows[name];
};

pageTest("the fixed trace has its two exact reuse figures", { path: book }, async ({ page }) => {
  assert.equal(await ended(page), "done");
  const rows = await reuse(page);
  const roundRobin = named(rows, "round");
  const unguarded = named(rows, "prefix", "off");
  assert.deepEqual(roundRobin.slice(0, 2), [2464, 10476]);
  assert.deepEqual(unguarded.slice(0, 2), [7424, 10476]);
  assert.match(roundRobin[2].replace(/\s/g, " "), /2,464 \/ 10,476/);
  assert.match(unguarded[2].replace(/\s/g, " "), /7,424 \/ 10,476/);
});

pageTest("a first visit shows a result without a click", {}, async ({ page }) => {
  assert.equal(await ended(page), "done");
  assert.ok((await page.getByTestId("findings").locator("li").count()) > 0);
  assert.ok((await page.getByTestId("stage").locator("[data-testid^=replica-]").count()) === 4);
  assert.match(await page.locator("h1").textContent(), /\?$/);
});

pageTest("copying the address reproduces the run", { path: book }, async ({ page, context }) => {
  await ended(page);
  await page.getByLabel("Seed", { exact: true }).fill("11");
  await page.getByLabel("Replicas", { exact: true }).fill("3");
  await page.getByLabel("Replicas", { exact: true }).press("Tab");
  await page.getByTestId("stale").waitFor();
  await page.getByTestId("run").click();
  await ended(page);
  const rows = await reuse(page);
  await page.getByTestId("copy-link").click();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(link, /replicas=3/);
  assert.equal(link, page.url());
  const second = await context.newPage();
  await second.goto(link);
  await ended(second);
  assert.deepEqual(await reuse(second), rows);
  assert.equal(await second.getByTestId("replica-2").count(), 1);
  assert.equal(await second.getByTestId("replica-3").count(), 0);
});

pageTest("back undoes a change", { path: book }, async ({ page }) => {
  await ended(page);
  const replicas = page.getByLabel("Replicas", { exact: true });
  await replicas.fill("2");
  await replicas.press("Tab");
  await page.waitForFunction(() => location.hash.includes("replicas=2"));
  await page.goBack();
  await page.waitForFunction(() => !location.hash.includes("replicas=2"));
  assert.equal(await replicas.inputValue(), "4");
});

pageTest("a malformed link opens the page and says so", { path: "#preset=nonsense&replicas=-3&%zz=1" }, async ({ page }) => {
  assert.equal(await ended(page), "done");
  const notice = await page.getByTestId("notice").textContent();
  assert.match(notice, /nonsense/);
  assert.match(notice, /replicas/);
});

pageTest(
  "a link to what does not exist opens what does",
  { path: `${book}&policies=nope,round_robin(x=1),prefix_affinity(guard_ratio=0.5)&execution.cost=abacus` },
  async ({ page }) => {
    assert.equal(await ended(page), "done");
    const notice = await page.getByTestId("notice").textContent();
    for (const word of [/nope/, /round_robin\.x/, /guard_ratio/, /abacus/]) assert.match(notice, word);
    assert.deepEqual(Object.keys(await reuse(page)), ["Round-robin", "Prefix affinity"]);
  },
);

pageTest(
  "own prices have fields, and the run uses them",
  { path: `${book}&execution.cost=custom&execution.coefficients.step_us=1000` },
  async ({ page }) => {
    assert.equal(await ended(page), "done");
    const step = page.getByLabel("Cost of a step", { exact: true });
    assert.equal(await step.inputValue(), "1000");
    await step.fill("0");
    await step.press("Tab");
    // Nothing costs anything now: refused, and said where it can be seen.
    assert.match(await page.getByTestId("draft-error").textContent(), /coefficients/);
    assert.ok(await page.getByTestId("run").isDisabled());
  },
);

pageTest("a fault in a closed group is told beside Run", { path: "#preset=multi-tenant" }, async ({ page }) => {
  await ended(page);
  await page.getByLabel("System prompt, longest", { exact: true }).fill("5000");
  await page.getByLabel("System prompt, longest", { exact: true }).press("Tab");
  assert.match(await page.getByTestId("draft-error").textContent(), /max_context/);
  assert.ok(await page.getByTestId("run").isDisabled());
});

pageTest("what was not taken is not shown as if it were", { path: book }, async ({ page }) => {
  await ended(page);
  const replicas = page.getByLabel("Replicas", { exact: true });
  for (const typed of ["", "100000", "-7"]) {
    await replicas.fill(typed);
    await replicas.press("Tab");
    assert.equal(await replicas.inputValue(), "4", `after typing "${typed}"`);
  }
});

pageTest("a value out of range is refused where it stands", { path: book }, async ({ page }) => {
  await ended(page);
  const replicas = page.getByLabel("Replicas", { exact: true });
  await replicas.fill("100000");
  await replicas.press("Tab");
  const error = page.getByTestId("controls").getByRole("alert");
  await error.waitFor();
  assert.match(await error.textContent(), /1 to 512/);
});

pageTest("a long run can be cancelled and keeps what it has", { path: "#preset=multi-tenant&workload.requests=300000" }, async ({ page }) => {
  await page.getByTestId("cancel").waitFor();
  await page.waitForFunction(() => document.querySelector("[data-testid=status]")?.textContent === "running");
  await page.waitForTimeout(1200);
  await page.getByTestId("cancel").click();
  await page.getByTestId("run").waitFor();
  await page.getByTestId("results-table").waitFor();
  assert.match(await page.locator(".results").textContent(), /Cancelled/);
  assert.equal(await page.getByTestId("status").textContent(), "stopped");
  assert.equal(await page.getByTestId("results-table").locator(".winner").count(), 0, "nobody wins a race that was stopped");
});

pageTest("the keyboard plays, steps and jumps", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await ended(page);
  const clock = async () => Number((await page.locator(".clock strong").textContent()).replace(/[^0-9.]/g, ""));
  await page.locator("body").press("Home");
  assert.equal(await clock(), 0);
  await page.locator("body").press("ArrowRight");
  await page.waitForFunction(() => !document.querySelector(".clock strong").textContent.startsWith("0.000"));
  const first = await clock();
  await page.locator("body").press("ArrowRight");
  await page.waitForFunction((first) => Number(document.querySelector(".clock strong").textContent.replace(/[^0-9.]/g, "")) > first, first);
  await page.locator("body").press("ArrowLeft");
  assert.equal(await clock(), first);
  await page.locator("body").press(" ");
  assert.equal(await page.getByTestId("play").getAttribute("aria-label"), "Pause");
  await page.locator("body").press(" ");
  assert.equal(await page.getByTestId("play").getAttribute("aria-label"), "Play");
  await page.locator("body").press("3");
  assert.equal(await page.getByTestId("focus-2").getAttribute("aria-pressed"), "true");
});

pageTest("a request tells its story", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await ended(page);
  const pill = page.locator(".pill:visible").first();
  const label = await pill.getAttribute("aria-label");
  await pill.click();
  await page.getByTestId("why-text").click();
  const story = page.getByTestId("story");
  await story.locator("dl").waitFor();
  assert.equal(await story.locator("h2").textContent(), label.split(",")[0]);
  assert.match(await story.textContent(), /Why there/);
  await page.keyboard.press("Escape");
  await story.waitFor({ state: "detached" });
});

pageTest("charts are drawn, read by keyboard and zoomed", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await ended(page);
  for (const id of ["ttft_over_time", "outstanding_over_time", "ttft_cdf"]) {
    await page.getByTestId(`chart-${id}`).locator(".picture svg").waitFor();
  }
  const over = page.getByTestId("chart-ttft_over_time").getByRole("slider");
  await over.focus();
  await over.press("End");
  const said = await over.getAttribute("aria-valuetext");
  assert.match(said, /\d/);
  assert.equal((await page.getByTestId("read-ttft_over_time").textContent()).trim(), said);
  const picture = page.getByTestId("chart-ttft_over_time").locator(".picture");
  const changed = (before) =>
    page.waitForFunction((before) => document.querySelector("[data-testid=chart-ttft_over_time] .picture").innerHTML !== before, before);
  const press = async (key) => {
    const before = await picture.innerHTML();
    await over.press(key);
    await changed(before);
    return picture.innerHTML();
  };
  const zoomed = await press("+");
  // Along the axis and back: the same part is the same picture.
  assert.notEqual(await press("["), zoomed);
  assert.equal(await press("]"), zoomed);
  // Drawn along by hand, the picture follows at once, and the part that belongs there comes when it is let go.
  const box = await over.boundingBox();
  const at = (share) => [box.x + share * box.width, box.y + box.height / 2];
  await page.keyboard.down("Shift");
  await page.mouse.move(...at(0.3));
  await page.mouse.down();
  await page.mouse.move(...at(0.5));
  assert.match(await picture.evaluate((picture) => picture.style.transform), /translateX\(\d/);
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await changed(zoomed);
  await page.waitForFunction(() => document.querySelector("[data-testid=chart-ttft_over_time] .picture").style.transform === "");
  // At the end there is nothing further.
  await page.getByTestId("chart-ttft_over_time").getByRole("button", { name: "Pan right" }).click();
  await over.press("0");
  await page.waitForFunction(() => document.querySelector("[data-testid=chart-ttft_over_time] [aria-label='Pan right']").disabled);
});

pageTest("a run leaves as numbers, tables, a paragraph, a trace and metrics", { path: book }, async ({ page }) => {
  await ended(page);
  const saved = async (id) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByTestId(id).click()]);
    return readFileSync(await download.path(), "utf8");
  };
  await page.getByTestId("exports").locator("summary").click();
  const report = JSON.parse(await saved("export-json"));
  assert.equal(report.policies[0].reuse.hit_tokens, 2464);
  assert.equal(report.spec.preset, "book-trace");
  const csv = (await saved("export-csv")).trim().split("\n");
  // A row for each policy, and under it one for each of the six tenants.
  assert.equal(csv.length, 1 + report.policies.length * 7);
  assert.match(csv[0], /reuse\.hit_tokens/);
  const trace = JSON.parse(await saved("export-perfetto"));
  const flows = (phase) => trace.traceEvents.filter((event) => event.ph === phase).length;
  // A flow for each request of each policy.
  const requests = report.policies.reduce((sum, policy) => sum + policy.requests.total, 0);
  assert.deepEqual([flows("s"), flows("f")], [requests, requests]);
  assert.match(await saved("export-prometheus"), /^vllm:time_to_first_token_seconds_bucket\{policy="/m);
  assert.match(await saved("export-markdown"), /\| 23\.5 % \|/);
  await page.getByTestId("export-methods").click();
  const said = await page.getByTestId("methods").textContent();
  assert.match(said, /servelab run '#v=1&preset=book-trace'/);
  await page.getByTestId("methods-copy").click();
  await page.getByTestId("methods-copy").getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), said);
  await shotsOf(page, "exports", { of: page.getByTestId("exports") });
  // What describes the files lies beside the page.
  const schema = await page.evaluate(async () => (await fetch("schema/report.json")).json());
  assert.deepEqual(Object.keys(report).filter((field) => !(field in schema.properties)), []);
});

pageTest("nothing is wider than a phone of 320 pixels", { path: book, size: "phone" }, async ({ page }) => {
  await ended(page);
  await page.setViewportSize({ width: 320, height: 640 });
  await page.waitForTimeout(300);
  const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
  assert.ok(width <= 320, `the page is ${width} pixels wide`);
});

pageTest("policies side by side on the same arrivals", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await ended(page);
  await page.getByTestId("side-by-side").click();
  const stages = page.locator("[data-testid^=stage-]");
  await page.waitForFunction(() => document.querySelectorAll("[data-testid^=stage-] .flow-count").length === 4);
  await page.waitForFunction(() => {
    const counts = [...document.querySelectorAll("[data-testid^=stage-] .flow-count")].map((e) => e.textContent);
    return new Set(counts).size === 1 && counts[0] !== "0";
  });
  assert.equal(await stages.count(), 4);
});

pageTest("pictures of the finished page", { path: book, reducedMotion: "reduce" }, async ({ page }) => {
  await ended(page);
  await page.getByTestId("chart-ttft_cdf").locator(".picture svg").waitFor();
  await page.waitForTimeout(500);
  await shotsOf(page, "book trace", { fullPage: true });
});

pageTest("a first visitor reads an answer before the simulator has come", { open: false, reducedMotion: "reduce" }, async ({ page }) => {
  const waiting = [];
  await page.route("**/servelab-worker_bg.wasm", (route) => waiting.push(route));
  // An address that asks something else is not answered with it.
  await page.goto(new URL("#preset=book-trace", base).href);
  await page.getByText("The table fills as soon as the run has finished.").waitFor();
  await page.waitForTimeout(500);
  assert.equal(await page.getByTestId("findings").count(), 0);
  await page.goto("about:blank");
  await page.goto(base);
  const findings = page.getByTestId("findings");
  await findings.waitFor();
  await page.getByTestId("before").waitFor();
  assert.equal(await page.getByTestId("status").textContent(), "loading");
  const [said, table] = [await findings.innerText(), await page.getByTestId("results-table").innerText()];
  assert.ok(said.length > 100 && table.includes("p95"), said);
  assert.match(await page.getByRole("main").innerText(), /Round-robin/);
  assert.doesNotMatch(await page.getByRole("main").innerText(), /round_robin|prefix_affinity/, "people's names, before the catalog is there");
  waiting.splice(0).forEach((route) => route.continue().catch(() => {}));
  await endedWell(page);
  await page.getByTestId("before").waitFor({ state: "detached" });
  assert.equal(await findings.innerText(), said, "the run says the same");
  assert.equal(await page.getByTestId("results-table").innerText(), table);
});
