// The visitor's own traffic: every kind of file is opened, read and looked at; what can not be read says why; a router is chosen for it.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { endedWell, pageTest, shotsOf } from "./lib.mjs";

const data = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "crates", "workload", "tests", "data");
const book = { path: "#preset=book-trace", reducedMotion: "reduce" };
const file = (name) => ({ name, mimeType: "", buffer: readFileSync(join(data, name)) });

/** Opens a file once the page is ready. */
async function give(page, what) {
  await endedWell(page);
  if (!(await page.getByTestId("traffic").evaluate((details) => details.open))) {
    await page.getByTestId("traffic").locator("summary").first().click();
  }
  await page.getByTestId("traffic-file").setInputFiles(what);
}

/** Waits for the view, and returns its text with plain blanks. */
async function seen(page) {
  await page.getByTestId("traffic-view").waitFor();
  return (await page.getByTestId("traffic-view").textContent()).replace(/\s/g, " ");
}

pageTest("every format is recognised and looked at", { ...book, timeout: 120_000 }, async ({ page }) => {
  for (const [name, label, requests] of [
    ["mooncake.jsonl", "Mooncake", 7],
    ["qwen.jsonl", "Qwen-Bailian", 5],
    ["azure.csv", "Azure", 3],
    ["burst6.csv", "BurstGPT", 3],
    ["burst8.csv", "BurstGPT", 4],
    ["vllm.json", "vLLM", 5],
    ["otel.jsonl", "OpenTelemetry", 3],
  ]) {
    await give(page, file(name));
    await page.waitForFunction((label) => document.querySelector("[data-testid=traffic-view]")?.textContent.includes(label), label);
    assert.match(await seen(page), new RegExp(`requests\\s*${requests} in`), name);
  }
  await give(page, file("mooncake.jsonl"));
  await page.getByTestId("traffic-remarks").waitFor();
  assert.match(await page.getByTestId("traffic-remarks").textContent(), /first in line 13: left out/);
  assert.match(await page.getByTestId("traffic-findings").textContent(), /Every request shares block 0/);
  await page.getByTestId("traffic_cache").locator("svg").waitFor();
  // Pictures follow the scheme, all of them.
  const grounds = () => page.locator(".traffic-charts svg > rect:first-of-type").evaluateAll((all) => all.map((rect) => rect.getAttribute("fill")).join());
  const light = await grounds();
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForFunction((light) => {
    const now = [...document.querySelectorAll(".traffic-charts svg > rect:first-of-type")].map((rect) => rect.getAttribute("fill"));
    return now.length === 3 && now.every((fill) => !light.includes(fill));
  }, light);
  await shotsOf(page, "traffic", { fullPage: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);
  assert.ok(wide, "nothing sticks out of a phone");
});

pageTest("columns are asked for, and a format can be overruled", book, async ({ page }) => {
  await give(page, file("columns.csv"));
  await page.getByTestId("traffic-error").waitFor();
  assert.match(await page.getByTestId("traffic-error").textContent(), /do not say which is arrival/);
  await page.getByTestId("traffic-arrival").selectOption("when");
  await page.getByTestId("traffic-prompt").selectOption("tokens in");
  await page.getByTestId("traffic-output").selectOption("tokens out");
  await page.getByTestId("traffic-tenant").selectOption("who");
  await page.getByTestId("traffic-read").click();
  assert.match(await seen(page), /CSV with named columns.*carl 75 %/);
  await give(page, file("qwen.jsonl"));
  await page.waitForFunction(() => document.querySelector("[data-testid=traffic-view]")?.textContent.includes("Qwen"));
  await page.getByTestId("traffic-format").selectOption("mooncake");
  await page.waitForFunction(() => document.querySelector("[data-testid=traffic-view]")?.textContent.includes("Mooncake"));
  await page.getByTestId("traffic-format").selectOption("azure");
  await page.getByTestId("traffic-error").waitFor();
});

pageTest("what can not be read says why", book, async ({ page }) => {
  for (const [buffer, expected] of [
    [Buffer.from("timestamp,in\n", "utf16le"), /UTF-16/],
    [Buffer.from([1, 0, 0, 0, 7, 0, 0, 9]), /binary/],
    [Buffer.from(""), /empty/],
    [Buffer.from("PAR1xxxxPAR1"), /Parquet/],
    [gzipSync(Buffer.concat([Buffer.from('{"hash_ids":1}\n'), Buffer.alloc(120 << 20, 32)])), /refused/],
  ]) {
    await give(page, { name: "file", mimeType: "", buffer });
    await page.waitForFunction((text) => new RegExp(text).test(document.querySelector("[data-testid=traffic-error]")?.textContent), expected.source);
  }
  await shotsOf(page, "traffic refused", { fullPage: true });
});

/** So many Mooncake rows: conversations over a beginning that all share. */
function rows(many) {
  const line = (i) => JSON.stringify({ timestamp: i * 40, input_length: 2000, output_length: 20, hash_ids: [0, 1 + (i % 50), 100 + (i % 50), 1000 + i] });
  return Buffer.from(Array.from({ length: many }, (_, i) => line(i)).join("\n"));
}

pageTest("a large file can be stopped, and a router is found for a packed one", { ...book, timeout: 120_000 }, async ({ page }) => {
  // Long enough that nobody has read it before the button is found.
  const folder = mkdtempSync(join(tmpdir(), "servelab-"));
  writeFileSync(join(folder, "long.jsonl"), rows(800_000));
  await give(page, join(folder, "long.jsonl"));
  await page.getByTestId("traffic-progress").waitFor();
  await page.getByTestId("traffic-cancel").click();
  await page.getByTestId("traffic-error").waitFor();
  rmSync(folder, { recursive: true });
  assert.match(await page.getByTestId("traffic-error").textContent(), /stopped/);
  await give(page, { name: "short.jsonl.gz", mimeType: "", buffer: gzipSync(rows(300)) });
  assert.match(await seen(page), /requests\s*300 in/);
  const name = await page.getByTestId("traffic-view").getAttribute("data-trace");
  await page.getByTestId("traffic-compare").click();
  await page.waitForFunction((name) => location.hash.includes(`workload.trace=${name}`), name);
  await endedWell(page);
  const hit = Number(await page.getByTestId("reuse-0").getAttribute("data-hit"));
  assert.ok(hit > 0, "routers find what prompts share");
  await page.getByTestId("traffic-generate").click();
  await page.waitForFunction(() => location.hash.includes("workload.kind=generated"));
  await endedWell(page);
});
