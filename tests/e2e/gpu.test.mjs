// The page with the model on WebGPU. Where there is no GPU the browser's software adapter computes, asked for by name;
// a run that went to the CPU instead fails here.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { adapterOf, endedWell, exactReuse, pageTest, reuseOfTwo, shotsOf } from "./lib.mjs";

const MINUTE = 60_000;
const small =
  "#preset=book-trace&policies=round_robin,prefix_affinity(guard=0)&execution.mode=tinygpt&execution.device=webgpu&execution.model=small";

pageTest(
  "the small model serves the fixed trace on WebGPU",
  { path: small, timeout: 6 * MINUTE, reducedMotion: "reduce" },
  async ({ page }) => {
    const adapter = await adapterOf(page);
    assert.ok(adapter, "the browser offers no WebGPU adapter");
    await endedWell(page);
    assert.equal(await page.getByTestId("notice").count(), 0);
    const device = await page.getByTestId("device").locator("p").first().textContent();
    assert.match(device, /WebGPU/);
    assert.match(device, new RegExp(adapter.architecture, "i"));
    assert.deepEqual(await reuseOfTwo(page), exactReuse);
    await shotsOf(page, "live-webgpu");
  },
);

pageTest(
  "the reference model is measured on WebGPU, beside the CPU",
  { path: "#preset=book-trace", timeout: 4 * MINUTE, reducedMotion: "reduce" },
  async ({ page }) => {
    await endedWell(page);
    await page.getByTestId("device-cpu").waitFor();
    await page.getByTestId("measure-gpu").click();
    const row = page.getByTestId("device-webgpu");
    await row.waitFor();
    assert.match(await row.textContent(), /swiftshader|WebGPU/i);
    const cells = await row.locator("td").allTextContents();
    // Six kernels a layer, the look-up and the head.
    assert.equal(cells.at(-1), "38");
    const milliseconds = cells.slice(0, 3).map((text) => parseFloat(text));
    assert.ok(milliseconds.every((value) => value > 0), cells.join(", "));
    assert.match(await page.getByTestId("verdict").textContent(), /CPU|GPU/);
    console.log(`reference model on WebGPU here: decode 1 ${cells[0]}, decode 8 ${cells[1]}, prefill 128 ${cells[2]}`);
    await page.getByTestId("device").scrollIntoViewIfNeeded();
    await shotsOf(page, "devices");
  },
);

/** The worker's first script, with `before` run ahead of it. */
async function tamper(page, before) {
  const script = readFileSync(new URL("../../www/worker.js", import.meta.url), "utf8");
  await page.route("**/worker.js?name=servelab-worker-gpu", (route) =>
    route.fulfill({ contentType: "text/javascript", body: `${before}\n${script}` }),
  );
}

/** The run is finished on the CPU and the page says why. */
async function movedToCpu(page, why) {
  await endedWell(page);
  assert.deepEqual(await reuseOfTwo(page), exactReuse);
  assert.match(await page.getByTestId("device").locator("p").first().textContent(), /CPU/);
  const notice = await page.getByTestId("notice").textContent();
  assert.match(notice, /moved to the CPU/);
  assert.match(notice, why);
}

pageTest(
  "a GPU lost in mid-run: the CPU takes over and the page says why",
  { open: false, timeout: 2 * MINUTE, reducedMotion: "reduce", size: "phone" },
  async ({ page, shot }) => {
    await tamper(
      page,
      `let submissions = 0;
       const submit = GPUQueue.prototype.submit;
       const request = GPUAdapter.prototype.requestDevice;
       let device;
       GPUAdapter.prototype.requestDevice = async function (...rest) { return (device = await request.apply(this, rest)); };
       GPUQueue.prototype.submit = function (...rest) {
         if (++submissions === 60) device.destroy();
         return submit.apply(this, rest);
       };`,
    );
    await page.goto(process.env.SERVELAB_URL + small);
    await movedToCpu(page, /lost|destroyed/i);
    await shot("gpu-lost");
  },
);

pageTest(
  "no adapter: the CPU takes over and the page says why",
  { open: false, timeout: 2 * MINUTE, reducedMotion: "reduce" },
  async ({ page }) => {
    await tamper(page, "GPU.prototype.requestAdapter = async () => null;");
    await page.goto(process.env.SERVELAB_URL + small);
    await movedToCpu(page, /adapter/i);
  },
);

pageTest(
  "out of memory: the CPU takes over and the page says why",
  { open: false, timeout: 2 * MINUTE, reducedMotion: "reduce" },
  async ({ page }) => {
    await tamper(
      page,
      `const create = GPUDevice.prototype.createBuffer;
       GPUDevice.prototype.createBuffer = function (descriptor) {
         if (descriptor.size > 200_000) {
           const event = new GPUUncapturedErrorEvent("uncapturederror", { error: new GPUOutOfMemoryError("no room for a buffer") });
           queueMicrotask(() => this.dispatchEvent(event));
         }
         return create.call(this, descriptor);
       };`,
    );
    await page.goto(process.env.SERVELAB_URL + small);
    await movedToCpu(page, /memory|room/i);
  },
);

pageTest(
  "the GPU worker does not come: the CPU takes over and the page says why",
  { open: false, timeout: 2 * MINUTE, reducedMotion: "reduce", allow: [/servelab-worker-gpu/, /404/] },
  async ({ page }) => {
    await page.route("**/servelab-worker-gpu_bg.wasm", (route) => route.fulfill({ status: 404, body: "" }));
    await page.goto(process.env.SERVELAB_URL + small);
    await movedToCpu(page, /404/);
  },
);
