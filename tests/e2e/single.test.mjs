// The page in one file: from a disk, and in frames that have no origin.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { Host } from "./host.mjs";
import { base, endedWell, exactReuse, pageTest, reuseOfTwo } from "./lib.mjs";

const answer = base && (await fetch(new URL("servelab.html", base)));
const html = base ? await answer.text() : "";
const folder = mkdtempSync(join(tmpdir(), "servelab-disk-"));
after(() => rmSync(folder, { recursive: true }));

// A real one: to a page that a test makes up, browsers deny in a sandbox what lies on this machine.
const host = new Host();
const course = await host.open();
after(() => host.close());

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

const framing = (body) => `<!DOCTYPE html><html lang="en"><head><title>A course</title><link rel="icon" href="data:,"></head><body>${body}</body></html>`;
const framed = { address: course, path: "course.html", reducedMotion: "reduce", timeout: 60_000 };
const frame = (attributes) => `<iframe sandbox="allow-scripts" style="width:1200px;height:2400px" ${attributes}></iframe>`;

host.pages["course.html"] = framing(frame(`src="./servelab.html${trace}"`));
pageTest("in a sandboxed frame: by its address, without storage", framed, async ({ page }) => {
  const inside = page.frameLocator("iframe");
  await inside.getByTestId("findings").waitFor();
  assert.equal(await inside.getByTestId("reuse-0").getAttribute("data-hit"), String(exactReuse[0][0]));
});

host.pages["text.html"] = framing(frame(""));
pageTest("in a sandboxed frame: as its text", { ...framed, path: "text.html" }, async ({ page }) => {
  await page.evaluate((text) => (document.querySelector("iframe").srcdoc = text), html);
  await page.frameLocator("iframe").getByTestId("findings").waitFor();
});

host.pages["sandboxed.html"] = framing(frame(`src="./inside.html"`));
host.pages["inside.html"] = framing(`<script src="./embed.js" async></script><output></output>
  <serve-lab experiment="book-trace" show="results"></serve-lab><serve-lab experiment="book-trace" show="stage" seed="3"></serve-lab>
  <script>addEventListener("servelab:finished", (event) => (document.querySelector("output").textContent += event.detail.policies[0].reuse.hit_tokens + ";"));</script>`);
pageTest("a host that is itself in a sandbox: its tags show the file, several on a page", { ...framed, path: "sandboxed.html" }, async ({ page, shot }) => {
  const inside = page.frameLocator("iframe");
  await inside.getByText("2464;2464;").waitFor();
  await inside.locator("serve-lab").first().frameLocator("iframe").getByTestId("findings").waitFor();
  await shot("sandboxed-host");
});
