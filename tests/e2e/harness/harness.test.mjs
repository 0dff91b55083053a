// The harness against pages made to break its rules: what it misses, every test misses.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { adapterOf, browser, settled, watch } from "../lib.mjs";

const policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self' http://127.0.0.1:9";

// Pages by name; `script` is served as a file, since the policy forbids inline script.
const pages = {
  quiet: { script: "document.title = 'quiet'; console.log('fine'); console.warn('fine too');" },
  "console-error": { script: "console.error('something broke');" },
  uncaught: { script: "setTimeout(() => { throw new Error('nobody caught this'); });" },
  rejected: { script: "Promise.reject(new Error('nobody awaited this'));" },
  "worker-console": { script: "new Worker('worker-console.worker.js', { type: 'module' });", worker: "console.error('worker says');" },
  "worker-uncaught": { script: "new Worker('worker-uncaught.worker.js', { type: 'module' });", worker: "throw new Error('worker broke');" },
  inline: { script: "", body: "<script>document.title = 'ran'</script>" },
  missing: { script: "fetch('no-such-file.json').catch(() => {});" },
  foreign: { script: "fetch('http://127.0.0.1:9/').catch(() => {});" },
  "worker-gpu": {
    script: "const w = new Worker('worker-gpu.worker.js', { type: 'module' }); w.onmessage = (e) => { document.title = e.data; };",
    worker: "const a = await navigator.gpu?.requestAdapter(); postMessage(a ? `${a.info.vendor}/${a.info.architecture}` : 'none');",
  },
};

let origin;
const server = createServer((request, response) => {
  const [, name, kind] = request.url.match(/^\/([a-z-]+)(?:\.(script|worker)\.js)?$/) ?? [];
  const page = pages[name];
  response.setHeader("Content-Security-Policy", policy);
  if (request.url === "/favicon.ico") response.writeHead(204).end();
  else if (!page) response.writeHead(404).end();
  else if (kind) response.setHeader("Content-Type", "text/javascript").end(page[kind] ?? "");
  else {
    response.setHeader("Content-Type", "text/html");
    response.end(`<!doctype html><title>page</title><p>${name}</p>${page.body ?? ""}<script type="module" src="${name}.script.js"></script>`);
  }
});

before(async () => {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${server.address().port}`;
});
after(() => server.close());

async function visit(name, look = async () => {}) {
  const context = await (await browser()).newContext();
  try {
    const page = await context.newPage();
    const problems = await watch(page, origin);
    await page.goto(`${origin}/${name}`);
    const seen = await look(page);
    await page.waitForTimeout(300);
    return { problems: await settled(page, problems), seen };
  } finally {
    await context.close();
  }
}

test("a quiet page has no problems, and software WebGPU", async () => {
  const { problems, seen } = await visit("quiet", adapterOf);
  assert.deepEqual(problems, []);
  assert.deepEqual(seen, { vendor: "google", architecture: "swiftshader" });
});

test("workers have WebGPU too", async () => {
  const { problems, seen } = await visit("worker-gpu", async (page) => {
    await page.waitForFunction(() => document.title !== "page");
    return page.title();
  });
  assert.deepEqual(problems, []);
  assert.equal(seen, "google/swiftshader");
});

for (const [name, expected] of Object.entries({
  "console-error": /^console: something broke/,
  uncaught: /^uncaught: .*nobody caught this/,
  rejected: /^uncaught: .*nobody awaited this/,
  "worker-console": /^console: worker says/,
  "worker-uncaught": /worker broke/,
  inline: /policy violated: script-src/,
  missing: /^HTTP 404: .*no-such-file/,
  foreign: /^foreign origin: http:\/\/127\.0\.0\.1:9/,
})) {
  test(`the harness notices: ${name}`, async () => {
    const { problems } = await visit(name);
    assert.ok(problems.some((text) => expected.test(text)), `${name}: ${JSON.stringify(problems)}`);
  });
}
