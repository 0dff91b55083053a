// The page in one file: from a disk, and in frames that have no origin.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { base, endedWell, exactReuse, pageTest, reuseOfTwo } from "./lib.mjs";

const answer = base && (await fetch(new URL("servelab.html", base)));
const html = base ? await answer.text() : "";
const folder = mkdtempSync(join(tmpdir(), "servelab-disk-"));
after(() => rmSync(folder, { recursive: true }));

/** The file on the disk, under a name of people's. */
function onDisk(name, text) {
  const path = join(folder, name);
  writeFileSync(path, text);
  return pathToFileURL(path).href;
}

const address = onDisk("The lab (copy).html", html);
const calm = { address, reducedMotion: "reduce", timeout: 120_000 };
const trace = "#preset=book-trace&policies=round_robin,prefix_affinity(guard=0)";

pageTest("from a disk: a run with its results, a setting that is kept, and no request at all", { ...calm, path: trace }, async ({ page, shot }) => {
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await endedWell(page);
  assert.deepEqual(await reuseOfTwo(page), exactReuse);
  await page.reload();
  await endedWell(page);
  assert.deepEqual(asked.filter((url) => !/^(blob|data):/.test(url) && url.split("#")[0] !== address), []);
  await page.evaluate(() => localStorage.setItem("kept", "yes"));
  await shot("single-file", { fullPage: true });
});

pageTest("from a disk: the real model computes on the CPU", { ...calm, path: `${trace}&execution.mode=tinygpt&execution.device=cpu&execution.model=small` }, async ({ page }) => {
  await endedWell(page);
  assert.deepEqual(await reuseOfTwo(page), exactReuse);
});

pageTest("from a disk: without the GPU model a live run goes on on the CPU, and says why", { ...calm, path: `${trace}&execution.mode=tinygpt&execution.device=webgpu&execution.model=small` }, async ({ page }) => {
  await endedWell(page);
  await page.getByText(/without servelab-worker-gpu/).first().waitFor();
});

const model = join(dirname(fileURLToPath(import.meta.url)), "../../www/model");
const files = ["manifest.json", "tokenizer.json", "tinygpt.safetensors"].map((name) => [name, gzipSync(readFileSync(join(model, name)), { level: 1 }).toString("base64")]);
// As `cargo xtask bundle` puts them there.
const whole = html.replace(/(?=<script type="module">)/, files.map(([name, text]) => `<script type="text/plain" id="kept:model/${name}">${text}</script>\n`).join(""));

pageTest("from a disk, with the model that writes in the file: the trained model runs", { ...calm, address: onDisk("whole.html", whole), path: `${trace}&execution.mode=tinygpt&execution.device=cpu&execution.model=trained` }, async ({ page }) => {
  await endedWell(page);
});

pageTest("from a disk, without it: the page says that it is not there", { ...calm, path: `${trace}&execution.mode=tinygpt&execution.device=cpu&execution.model=trained` }, async ({ page }) => {
  await page.waitForFunction(() => document.querySelector("[data-testid=status]")?.textContent === "failed");
  await page.getByText(/this file holds the page without it/).first().waitFor();
});

/** A page of somebody else's that shows `body` in a frame which may run scripts and nothing else. */
async function sandboxed(page, body, inside) {
  const outer = new URL("course.html", base).href;
  await page.route(outer, (route) => route.fulfill({ contentType: "text/html", body: `<!DOCTYPE html><html lang="en"><head><title>A course</title></head><body>${body}</body></html>` }));
  if (inside !== undefined) await page.route(new URL("inside.html", base).href, (route) => route.fulfill({ contentType: "text/html", body: inside }));
  await page.goto(outer);
}

const framed = { open: false, reducedMotion: "reduce", timeout: 120_000 };

pageTest("in a sandboxed frame: by its address, without storage", framed, async ({ page }) => {
  await sandboxed(page, `<iframe sandbox="allow-scripts" src="./servelab.html${trace}" style="width:1200px;height:2400px"></iframe>`);
  const frame = page.frameLocator("iframe");
  await frame.getByTestId("findings").waitFor();
  assert.equal(await frame.getByTestId("reuse-0").getAttribute("data-hit"), String(exactReuse[0][0]));
});

pageTest("in a sandboxed frame: as its text", framed, async ({ page }) => {
  await sandboxed(page, `<iframe sandbox="allow-scripts" style="width:1200px;height:2400px"></iframe>`);
  await page.evaluate((text) => (document.querySelector("iframe").srcdoc = text), html);
  await page.frameLocator("iframe").getByTestId("results").waitFor();
});

pageTest("a host that is itself in a sandbox: its tags show the file, several on a page", framed, async ({ page }) => {
  const tags = `<serve-lab experiment="book-trace" show="results"></serve-lab><serve-lab experiment="book-trace" show="stage" seed="3"></serve-lab>`;
  const inside = `<!DOCTYPE html><html lang="en"><head><title>Inside</title><script src="./embed.js" async></script></head><body><output></output>${tags}
    <script>addEventListener("servelab:finished", (event) => (document.querySelector("output").textContent += event.detail.policies[0].reuse.hit_tokens + ";"));</script></body></html>`;
  await sandboxed(page, `<iframe sandbox="allow-scripts" src="./inside.html" style="width:1200px;height:3000px"></iframe>`, inside);
  const frame = page.frameLocator("iframe");
  await frame.getByText("2464;2464;").waitFor();
  await frame.locator("serve-lab").first().frameLocator("iframe").getByTestId("findings").waitFor();
});
