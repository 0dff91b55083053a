// The example notebook: its cells run as they are, those in Python by Python, the one in HTML in a browser.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { pageTest } from "../lib.mjs";

const folder = process.env.SERVELAB_PACKAGE;
const file = join(dirname(fileURLToPath(import.meta.url)), "../../../examples/notebook/sweep.ipynb");
const cells = JSON.parse(readFileSync(file, "utf8")).cells.filter(({ cell_type }) => cell_type === "code").map(({ source }) => source.join(""));
const python = cells.filter((cell) => !cell.startsWith("%%"));
const [html] = cells.filter((cell) => cell.startsWith("%%html\n"));

// What Jupyter gives to cells; the display writes down what it is shown.
const kernel = `
import sys, types
shown = types.ModuleType("IPython.display")
shown.SVG = lambda data: data
shown.display = lambda data: print("SHOWN", len(data), data[:4], data.rstrip()[-6:])
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython.display"] = shown
`;
const native = () => {
  const args = ["sweep", "multi-tenant", "--set", "workload.requests=200", "--set", "policies=round_robin,prefix_affinity", "--axis", "workload.rate=0.5..1.5*5", "--seeds", "4", "--format", "json"];
  return JSON.parse(execFileSync(process.env.SERVELAB_CLI, args, { encoding: "utf8", maxBuffer: 1 << 28 }));
};

// Before the first test: what is registered after one has ended is not waited for.
const server = createServer(({ url }, response) => {
  const name = /^\/files\/dist-package\/([a-z_]+\.(?:js|wasm))$/.exec(url)?.[1];
  if (url === "/") response.setHeader("Content-Type", "text/html").end(`<!doctype html><meta charset="utf-8"><title>cell</title><link rel="icon" href="data:,">${html.replace("%%html\n", "")}`);
  else if (!name) response.writeHead(404).end();
  else response.setHeader("Content-Type", name.endsWith(".js") ? "text/javascript" : "application/wasm").end(readFileSync(join(folder, name)));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
after(() => server.close());

test("its Python cells print the command line's sweep and show its picture", { timeout: 120_000, skip: spawnSync("python3", ["--version"]).error && "there is no Python here" }, () => {
  assert.equal(python.length, 3);
  const env = { ...process.env, SERVELAB_PACKAGE: folder, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
  const said = execFileSync("python3", ["-c", kernel + python.join("\n\n")], { env, encoding: "utf8" });
  assert.match(said, /^20 runs\n/);
  for (const point of native().points) {
    const means = point.policies.map(({ mean }) => `${mean.ttft_p95_s.mean.toFixed(3)} s`);
    assert.ok(said.split("\n").some((line) => means.every((mean) => line.includes(mean))), `${means} in\n${said}`);
  }
  assert.match(said, /SHOWN \d{4,} <svg <\/svg>/);
});

pageTest("its HTML cell runs the sweep in the browser and shows its picture", { address: `http://127.0.0.1:${server.address().port}/` }, async ({ page, shot }) => {
  await page.getByText("20 runs").waitFor();
  assert.ok(await page.locator("#servelab-picture svg").isVisible());
  await shot("notebook-cell");
});
