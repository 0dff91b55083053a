// The package's types: made from the schemas as they are now, and right about what the simulator really says.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const folder = process.env.SERVELAB_PACKAGE;
const here = dirname(fileURLToPath(import.meta.url));
const native = (...args) => execFileSync(process.env.SERVELAB_CLI, args, { encoding: "utf8", maxBuffer: 1 << 28 });

/** A program's folder, in which the package is installed. */
const scratch = mkdtempSync(join(tmpdir(), "servelab-types-"));
after(() => rmSync(scratch, { recursive: true }));
mkdirSync(join(scratch, "node_modules"));
symlinkSync(folder, join(scratch, "node_modules", "servelab"), "junction");
writeFileSync(join(scratch, "package.json"), '{ "type": "module" }');

/** What the compiler says of a program. */
function checked(name, program) {
  writeFileSync(join(scratch, name), program);
  const compiler = join(here, "..", "node_modules", "typescript", "bin", "tsc");
  const options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--lib", "es2022,dom", "--types", "", name];
  return spawnSync(process.execPath, [compiler, ...options], { cwd: scratch, encoding: "utf8" });
}

test("a program that uses all of it type-checks, and its mistakes do not", () => {
  const { status, stdout } = checked("program.ts", readFileSync(join(here, "program.ts"), "utf8"));
  assert.equal(status, 0, stdout);
  // The check itself: a mistake that nobody expects is found, and so is an expected one that is none.
  const wrong = checked("wrong.ts", 'import { run } from "servelab";\nawait run({ replicas: "four" });\n// @ts-expect-error nothing is wrong\nawait run("x");\n');
  assert.notEqual(wrong.status, 0);
  assert.match(wrong.stdout, /wrong\.ts\(2,/);
  assert.match(wrong.stdout, /wrong\.ts\(3,/);
});

test("reports, sweeps and presets as they come are of their types", { timeout: 120_000 }, () => {
  const reports = ["book-trace", "noisy-tenant", "retry-storm"].map((preset) => native("run", preset, "--format", "json", ...(preset === "book-trace" ? [] : ["--set", "workload.requests=200"])));
  const sweep = native("sweep", "book-trace", "--axis", "replicas=2,4", "--seeds", "2", "--format", "json");
  const { status, stdout } = checked(
    "data.ts",
    `import type { Report, SweepReport } from "servelab";\nexport const reports: Report[] = [${reports.join(",")}];\nexport const sweep: SweepReport = ${sweep};\n`,
  );
  assert.equal(status, 0, stdout.slice(0, 2000));
});

test("the types are those that the schemas make now", () => {
  const schemas = join(scratch, "schemas");
  mkdirSync(schemas);
  for (const name of ["spec", "report", "sweep", "preset"]) writeFileSync(join(schemas, `${name}.json`), native("schema", name));
  const fresh = join(scratch, "fresh");
  mkdirSync(fresh);
  execFileSync(process.execPath, [join(here, "..", "..", "..", "package", "build.mjs"), schemas, fresh]);
  assert.equal(readFileSync(join(folder, "types.d.ts"), "utf8"), readFileSync(join(fresh, "types.d.ts"), "utf8"));
  assert.equal(readFileSync(join(folder, "index.d.ts"), "utf8"), readFileSync(join(fresh, "index.d.ts"), "utf8"));
});
