// The package in a browser: from a module script and from a worker, without a bundler, under a strict policy, from a host that calls wasm something else.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { after } from "node:test";
import { pageTest } from "../lib.mjs";

const folder = process.env.SERVELAB_PACKAGE;
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; img-src data:";

const pages = {
  "/script.html": `<!doctype html><meta charset="utf-8"><title>script</title><link rel="icon" href="data:,"><pre></pre><script type="module" src="script.js"></script>`,
  "/worker.html": `<!doctype html><meta charset="utf-8"><title>worker</title><link rel="icon" href="data:,"><pre></pre><script type="module" src="start.js"></script>`,
  "/script.js": `
    import { run, runText } from "./deep/er/servelab/index.js";
    const control = new AbortController();
    const stopped = run({ preset: "multi-tenant", workload: { requests: 100000 } }, { signal: control.signal, onProgress: ({ stage }) => stage === "running" && control.abort() });
    const name = await stopped.catch((error) => error.name);
    const wrong = await run({ replicas: 0 }).catch((error) => error.path);
    let tasks = 0;
    const counting = setInterval(() => (tasks += 1), 5);
    await run({ preset: "multi-tenant", workload: { requests: 5000 } });
    clearInterval(counting);
    document.querySelector("pre").textContent = JSON.stringify({ name, wrong, tasks, text: await runText("book-trace") });`,
  "/start.js": `
    const worker = new Worker("work.js", { type: "module" });
    worker.onmessage = ({ data }) => (document.querySelector("pre").textContent = data);`,
  "/work.js": `
    import { run, runText } from "./deep/er/servelab/index.js";
    const stages = new Set();
    const text = await runText("book-trace", { onProgress: ({ stage }) => stages.add(stage) });
    const wrong = await run({ replicas: 0 }).catch((error) => error.path);
    postMessage(JSON.stringify({ stages: [...stages], wrong, text }));`,
};

const server = createServer(({ url }, response) => {
  response.setHeader("Content-Security-Policy", policy);
  response.setHeader("X-Content-Type-Options", "nosniff");
  const own = pages[url];
  const name = url.startsWith("/deep/er/servelab/") && url.slice("/deep/er/servelab/".length);
  if (!own && !/^[a-z_]+\.(js|wasm)$/.test(name)) return response.writeHead(404).end();
  // Many a host knows nothing of wasm.
  const types = { ".html": "text/html", ".js": "text/javascript", ".wasm": "text/plain" };
  response.setHeader("Content-Type", types[extname(url)]).end(own ?? readFileSync(join(folder, name)));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${server.address().port}/`;
after(() => server.close());

const native = () => execFileSync(process.env.SERVELAB_CLI, ["run", "book-trace", "--format", "json"], { encoding: "utf8" });

/** What the page wrote down when it was done. */
async function written(page, name) {
  await page.goto(new URL(name, address).href);
  await page.waitForFunction(() => document.querySelector("pre").textContent);
  return JSON.parse(await page.locator("pre").textContent());
}

const options = { open: false, address };

pageTest("a module script gets the command line's report, is not blocked, and can stop", options, async ({ page }) => {
  const said = await written(page, "script.html");
  assert.equal(said.text, native());
  assert.equal(said.name, "AbortError");
  assert.equal(said.wrong, "replicas");
  assert.ok(said.tasks >= 3, `${said.tasks} timers fired during the run`);
});

pageTest("a worker gets the same", options, async ({ page }) => {
  const said = await written(page, "worker.html");
  assert.equal(said.text, native());
  assert.deepEqual(said.stages, ["loading", "building", "running", "reporting"]);
  assert.equal(said.wrong, "replicas");
});
