// The package in Node.js: the same bytes as the command line, errors that name their field, progress, and an end on request.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const folder = process.env.SERVELAB_PACKAGE;
const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
// As Node.js finds it by the package's name.
const { SpecError, presets, run, runText, spec, sweep, sweepChart, sweepText, version } = await import(pathToFileURL(join(folder, manifest.exports["."].node)).href);

/** What the command line writes. */
const native = (...args) => execFileSync(process.env.SERVELAB_CLI, args, { encoding: "utf8", maxBuffer: 1 << 28 });

test("a report is the command line's, byte for byte", { timeout: 120_000 }, async () => {
  for (const preset of ["book-trace", "multi-tenant", "retry-storm"]) {
    const small = preset === "retry-storm" ? ["--set", "workload.requests=300"] : [];
    const asked = preset === "retry-storm" ? { preset, workload: { requests: 300 } } : { preset };
    const text = native("run", preset, "--format", "json", ...small);
    assert.ok(text.length > 5000, "there is a report");
    assert.equal(await runText(asked), text, preset);
  }
});

test("an object, dotted keys, an address, a whole spec and a report ask for the same", { timeout: 120_000 }, async () => {
  const text = native("run", "multi-tenant", "--format", "json", "--seed", "3", "--set", "workload.rate=0.9", "--set", "policies=round_robin,prefix_affinity(guard=0)");
  const report = JSON.parse(text);
  for (const asked of [
    { preset: "multi-tenant", seed: 3, workload: { rate: 0.9 }, policies: ["round_robin", { name: "prefix_affinity", params: { guard: 0 } }] },
    { seed: 3, "workload.rate": 0.9, policies: "round_robin,prefix_affinity(guard=0)", preset: "multi-tenant" },
    "https://example.org/lab/#v=1&preset=multi-tenant&seed=3&workload.rate=0.9&policies=round_robin,prefix_affinity(guard=0)",
    report.spec,
    report,
  ]) {
    assert.equal(await runText(asked), text);
  }
  assert.deepEqual(await run(report), report);
  assert.deepEqual(await spec(report), report.spec);
});

test("a sweep is the command line's, byte for byte", { timeout: 120_000 }, async () => {
  const text = native("sweep", "book-trace", "--axis", "replicas=2,4", "--seeds", "2", "--format", "json");
  assert.equal(await sweepText({ spec: "book-trace", axes: ["replicas=2,4"], seeds: 2 }), text);
  const axis = { key: "replicas", values: [2, 4] };
  assert.equal(await sweepText({ spec: { preset: "book-trace" }, axes: [axis], seeds: 2 }), text);
});

test("a sweep's chart is the command line's", { timeout: 60_000 }, async () => {
  const chart = join(mkdtempSync(join(tmpdir(), "servelab-chart-")), "chart.svg");
  native("sweep", "book-trace", "--axis", "replicas=2,4", "--seeds", "2", "--format", "json", "--chart", `ttft_p95_s=${chart}`);
  const report = await sweep({ spec: "book-trace", axes: ["replicas=2,4"], seeds: 2 });
  assert.equal(await sweepChart(report, { figure: "ttft_p95_s", width: 960, height: 480 }), readFileSync(chart, "utf8"));
  await assert.rejects(sweepChart(report, { figure: "nonsense" }), { name: "SpecError", path: "figure", message: /ttft_p95_s/ });
});

test("errors are errors and name the field and what would be accepted", async () => {
  for (const [asked, path, says] of [
    [{ preset: "multi-tenant", replicas: 0 }, "replicas", /from 1 to 512/],
    [{ preset: "multi-tenant", workload: { rate: "fast" } }, "workload.rate", /number/],
    [{ preset: "nonsense" }, "preset", /book-trace/],
    [{ workload: { rat: 1 } }, "workload.rat", /workload\.rate/],
    [{ policies: ["round_robin", "no_such_policy"] }, /^policies/, /round_robin/],
    [{ policies: [{ name: "script", script: "fn route(" }] }, /^policies\.0/, /./],
    ["#preset=multi-tenant&replicas=many", "replicas", /number/],
    [undefined, "spec", /object/],
    [[], "spec", /object/],
  ]) {
    const error = await run(asked).then(() => assert.fail(`${JSON.stringify(asked)} ran`), (error) => error);
    assert.ok(error instanceof SpecError && error instanceof Error, String(error));
    assert.equal(error.name, "SpecError");
    if (typeof path === "string") assert.equal(error.path, path, error.message);
    else assert.match(error.path, path, error.message);
    assert.match(error.message, says);
    assert.match(error.stack, /at /);
  }
  const error = await sweepText({ spec: "book-trace", axes: ["replicas=2,4", 7] }).catch((error) => error);
  assert.equal(error.path, "axes.1", error.message);
  const failing = await run({ policies: [{ name: "script", script: "fn route(request, replicas) { throw \"no\" }" }] }).catch((error) => error);
  assert.match(failing.path, /^policies\.0/, failing.message);
});

const long = { preset: "multi-tenant", workload: { requests: 200_000 } };

test("an abort ends a run at once, with the signal's reason, and others go on", { timeout: 60_000 }, async () => {
  const control = new AbortController();
  const other = runText("book-trace");
  let ended;
  const running = run(long, { signal: control.signal, onProgress: ({ stage }) => stage === "running" && !ended && ((ended = performance.now()), control.abort()) });
  await assert.rejects(running, { name: "AbortError" });
  assert.ok(performance.now() - ended < 500, "promptly");
  assert.ok((await other).length > 5000);
  await assert.rejects(run(long, { signal: AbortSignal.abort() }), { name: "AbortError" });
  await assert.rejects(run(long, { signal: AbortSignal.timeout(300) }), { name: "TimeoutError" });
  const mine = new Error("enough");
  await assert.rejects(run(long, { signal: AbortSignal.abort(mine) }), mine);
});

test("progress grows from 0 to 1 through its stages, and timers run meanwhile", { timeout: 60_000 }, async () => {
  const told = [];
  let ticks = 0;
  const timer = setInterval(() => (ticks += 1), 5);
  await run({ preset: "multi-tenant", workload: { requests: 20_000 } }, { onProgress: (progress) => told.push(progress) });
  clearInterval(timer);
  assert.deepEqual([...new Set(told.map(({ stage }) => stage))], ["loading", "building", "running", "reporting"]);
  const fractions = told.map(({ fraction }) => fraction);
  assert.deepEqual(fractions, fractions.toSorted((a, b) => a - b));
  assert.equal(fractions[0], 0);
  assert.equal(fractions.at(-1), 1);
  assert.ok(fractions.filter((fraction) => fraction > 0 && fraction < 1).length >= 2, `${fractions}`);
  assert.ok(ticks >= 5, `${ticks} ticks`);
  await assert.rejects(run("book-trace", { onProgress: () => { throw new Error("mine"); } }), /mine/);
});

test("presets and version", async () => {
  const all = await presets();
  assert.ok(all.some(({ name, question }) => name === "book-trace" && question.length > 10));
  assert.equal(version, manifest.version);
  assert.equal((await run("book-trace")).generator, `servelab ${version}`);
});
