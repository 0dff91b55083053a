// Runs the end-to-end tests and prints their counts.
// node tests/e2e/run.mjs --url http://127.0.0.1:8080/ [--filter WORD] [--harness] [--package FOLDER]
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { run } from "node:test";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    url: { type: "string" },
    // Only files, or tests, whose name contains this.
    filter: { type: "string" },
    // Without the files that need the GPU model's worker.
    quick: { type: "boolean", default: false },
    // The harness's own tests, which bring their own pages.
    harness: { type: "boolean", default: false },
    // The tests of the package for JavaScript, which lies in that folder.
    package: { type: "string" },
  },
});

const here = dirname(fileURLToPath(import.meta.url));
const folder = values.harness ? join(here, "harness") : values.package ? join(here, "package") : here;
if (values.package) process.env.SERVELAB_PACKAGE = values.package;
if (values.url) process.env.SERVELAB_URL = values.url;
else if (!values.harness && !values.package) {
  console.error("give --url ADDRESS of the served page, or run `cargo xtask e2e`");
  process.exit(2);
}

let files = readdirSync(folder).filter((name) => name.endsWith(".test.mjs")).sort();
if (values.quick) files = files.filter((name) => !name.includes("gpu"));
let testNamePatterns;
if (values.filter) {
  const named = files.filter((name) => name.includes(values.filter));
  if (named.length) files = named;
  else testNamePatterns = [new RegExp(values.filter.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))];
}

const counts = { passed: 0, failed: 0, skipped: 0 };
// Two files at a time: a browser mostly waits, for a frame, for a request, for what a test looks at next. After them, one by one, what
// measures time or computes with all there is.
const alone = (name) => /gpu|live|smooth|whole/.test(name);
await runAll(files.filter((name) => !alone(name)), 2);
await runAll(files.filter(alone), 1);
console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exitCode = counts.failed === 0 && counts.passed > 0 ? 0 : 1;

async function runAll(names, concurrency) {
  // An empty list would mean every file that node itself takes for a test.
  if (names.length === 0) return;
  const stream = run({ files: names.map((name) => join(folder, name)), concurrency, testNamePatterns });
  stream.on("test:pass", (event) => {
    if (event.skip === undefined) report(event, "passed");
    // What the filter left out was not asked for.
    else if (!/does not match/.test(String(event.skip))) report(event, "skipped");
  });
  stream.on("test:fail", (event) => report(event, "failed"));
  stream.on("test:stdout", (event) => process.stdout.write(event.message));
  stream.on("test:stderr", (event) => process.stderr.write(event.message));
  stream.resume();
  await once(stream, "end");
}

function report(event, verdict) {
  // A file is reported as a test around its tests; it counts only when it broke by itself.
  const isFile = files.some((name) => event.name.endsWith(name));
  if (isFile && (verdict !== "failed" || event.details.error?.failureType === "subtestsFailed")) return;
  counts[verdict] += 1;
  const seconds = (event.details.duration_ms / 1000).toFixed(1);
  console.log(`${{ passed: "ok  ", failed: "FAIL", skipped: "skip" }[verdict]} ${event.name} (${seconds} s)`);
  if (verdict === "failed") {
    const cause = event.details.error?.cause ?? event.details.error;
    console.log(String(cause?.stack ?? cause).replace(/^/gm, "     "));
  }
}
