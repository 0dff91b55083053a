// A program that uses the package; types.test.mjs gives it to the compiler and does not run it.
import { SpecError, presets, run, runText, spec, sweep, sweepChart, version } from "servelab";
import type { Asked, PolicyReport, Preset, Progress, Report, Spec, SweepReport, WorkloadSpec } from "servelab";

const heard: Progress[] = [];
const control = new AbortController();
const report: Report = await run(
  { preset: "multi-tenant", seed: 3, workload: { rate: 0.9 }, policies: ["round_robin", { name: "prefix_affinity", params: { guard: 0 } }], "engine.blocks": 512 },
  { onProgress: (progress) => heard.push(progress), signal: control.signal },
);
const best: PolicyReport | undefined = [...report.policies].sort((a, b) => (a.ttft_s?.p95 ?? 0) - (b.ttft_s?.p95 ?? 0))[0];
const text: string = await runText("#preset=book-trace");
const whole: Spec = await spec({ workload: { kind: "sessions", turns_min: 2 }, clients: { policies: "openai_sdk,full_jitter(attempts=30)" } });
const workload: WorkloadSpec = { kind: "book_trace" };
const all: Preset[] = await presets();
const curve: SweepReport = await sweep({ spec: report, axes: ["workload.rate=0.5..1.5*5", { key: "replicas", values: { from: 1, to: 4, steps: 4 } }], seeds: 4 });
const svg: string = await sweepChart(curve, { figure: "ttft_p95_s", dark: true });
const again: Asked = { ...whole, version: 1 };
const words: string = `${version} ${best?.label} ${text} ${workload.kind} ${all[0]?.spec.seed} ${curve.points[0]?.policies[0]?.mean.ttft_p95_s?.low} ${again} ${svg}`;
console.log(words);
try {
  await run("nonsense");
} catch (error) {
  if (error instanceof SpecError) console.log(error.path.split("."), error.accepted?.length);
}

// @ts-expect-error a number of replicas is a number
await run({ replicas: "four" });
// @ts-expect-error there is no such setting
await run({ preset: "multi-tenant", replica: 4 });
// @ts-expect-error there is no such kind of workload
await run({ workload: { kind: "nonsense" } });
// @ts-expect-error a report has no such field
console.log(report.polices);
// @ts-expect-error a sweep needs axes
await sweep({ spec: "book-trace" });
// @ts-expect-error a sweep has no such number
await sweepChart(curve, { figure: "ttft" });
