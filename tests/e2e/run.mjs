// Runs the end-to-end tests and prints their counts.
// node tests/e2e/run.mjs --url http://127.0.0.1:8080/ [--filter WORD] [--harness] [--package FOLDER]
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
// One file at a time: the browser and the page's workers share two cores, and some tests measure time.
const stream = run({ files: files.map((name) => join(folder, name)), concurrency: 1, testNamePatterns });
stream.on("test:pass", (event) => {
  if (event.skip === undefined) report(event, "passed");
  // What the filter left out was not asked for.
  else if (!/does not match/.test(String(event.skip))) report(event, "skipped");
});
stream.on("test:fail", (event) => report(event, "failed"));
stream.on("test:stdout", (event) => process.stdout.write(event.message));
stream.on("test:stderr", (event) => process.stderr.write(event.message));
stream.on("end", () => {
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  process.exitCode = counts.failed === 0 && counts.passed > 0 ? 0 : 1;
});
stream.resume();

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
