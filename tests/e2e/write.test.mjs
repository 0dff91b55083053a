// The model that writes: a second prompt finds the first one's prefix, files of one's own are checked, a damaged model is said.
import assert from "node:assert/strict";
import { endedWell, pageTest, shotsOf } from "./lib.mjs";

const book = { path: "#preset=book-trace", reducedMotion: "reduce" };

async function open(page) {
  await endedWell(page);
  await page.getByTestId("write").locator("summary").first().click();
}

/** Writes and waits for the end. */
async function write(page) {
  const button = page.getByTestId("write-go");
  await button.click();
  await page.waitForFunction(() => document.querySelector("[data-testid=write-go]").textContent === "Stop");
  await page.waitForFunction(() => document.querySelector("[data-testid=write-go]").textContent === "Write", null, { timeout: 120_000 });
}

pageTest("a second prompt finds the first one's prefix", book, async ({ page }) => {
  await open(page);
  await page.getByTestId("write-own").fill("BAKER:");
  await write(page);
  const line = page.getByTestId("write-line-0");
  assert.equal(await line.getAttribute("data-cached"), "0");
  assert.ok((await line.locator(".chip-o").count()) >= 60);
  assert.equal(await page.getByTestId("write-notice").count(), 0, "the trained model is used");
  await page.getByTestId("write-own").fill("WIDOW:\nSMITH:");
  await write(page);
  assert.equal(await page.locator("[data-testid^=write-line-]").count(), 2);
  for (const at of [0, 1]) {
    const cached = Number(await page.getByTestId(`write-line-${at}`).getAttribute("data-cached"));
    assert.ok(cached >= 48, `${cached} tokens from the cache`);
    // The mark is on the text itself.
    assert.equal(await page.getByTestId(`write-line-${at}`).locator(".chip-c").count(), cached);
  }
  assert.match(await page.getByTestId("write-sentence").textContent(), /saved about/);
  assert.ok((await page.locator(".write-blocks .block-kept").count()) > 0);
  await shotsOf(page, "write", { fullPage: true });
});

pageTest("a damaged model is said, and random weights write in its place", book, async ({ page }) => {
  await page.route("**/model/tinygpt.safetensors*", (route) => route.fulfill({ body: "damaged" }));
  await open(page);
  await page.getByTestId("write-tokens").fill("5");
  await write(page);
  assert.match(await page.getByTestId("write-notice").textContent(), /has 7 bytes; the manifest says/);
  assert.ok((await page.getByTestId("write-line-0").locator(".chip-o").count()) >= 5);
});

pageTest("files of one's own are checked by name", book, async ({ page }) => {
  await open(page);
  await page.getByTestId("write").getByText("A model of your own").click();
  await page.getByTestId("write-weights").setInputFiles({ name: "w.safetensors", mimeType: "", buffer: Buffer.from("no weights") });
  await page.getByTestId("write-tokenizer").setInputFiles({ name: "tokenizer.json", mimeType: "application/json", buffer: Buffer.from("{}") });
  await page.getByTestId("write-error").waitFor();
  assert.match(await page.getByTestId("write-error").textContent(), /tokenizer\.json/i);
});
