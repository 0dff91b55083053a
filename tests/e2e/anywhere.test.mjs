// The built folder on other hosts than ours: deep in a path, with headers that know nothing of wasm, and without a network after the first visit.
import assert from "node:assert/strict";
import { after } from "node:test";
import { Host } from "./host.mjs";
import { endedWell, pageTest } from "./lib.mjs";

const host = new Host("/a/course/week%203/lab/");
const address = await host.open();
after(() => host.close());

const calm = { address, path: "#preset=book-trace", reducedMotion: "reduce", timeout: 90_000 };

pageTest("deep in a path, from a host without headers that calls wasm text", calm, async ({ page }) => {
  await endedWell(page);
  await page.getByTestId("findings").waitFor();
  assert.ok(host.asked.some((name) => name.endsWith("_bg.wasm") && name.includes("worker")), `${host.asked}`);
});

/** Builds that are kept. */
const caches = (page) => page.evaluate(async () => (await self.caches.keys()).map((name) => name.split(" ").at(-1)));

/** Asks again until the page says yes; what it says may take a while. */
async function until(page, ask) {
  while (!(await page.evaluate(ask))) await page.waitForTimeout(50);
}
const inCharge = (page) => until(page, async () => (await navigator.serviceWorker.ready).active?.state === "activated" && !!navigator.serviceWorker.controller);

pageTest(
  "after the first visit it works without a network, and a new build replaces the old one",
  // A page that asks its host for something new says so on the console.
  { ...calm, serviceWorkers: "allow", allow: [/ERR_(CONNECTION_REFUSED|INTERNET_DISCONNECTED|FAILED)/] },
  async ({ page, context }) => {
    await endedWell(page);
    await inCharge(page);
    const before = await caches(page);
    assert.equal(before.length, 1);

    await host.close();
    await context.setOffline(true);
    await page.reload();
    await endedWell(page);
    await page.getByTestId("findings").waitFor();

    await context.setOffline(false);
    host.changed = {
      "index.html": (text) => text.replace("<title>ServeLab</title>", "<title>ServeLab anew</title>"),
      "sw.js": (text) => text.replace(/const BUILD = "[^"]*"/, 'const BUILD = "another"'),
    };
    await host.open();
    await page.reload();
    assert.equal(await page.title(), "ServeLab anew", "the network comes first");
    await endedWell(page);
    await until(page, async () => (await self.caches.keys()).every((name) => name.endsWith(" another")));
    assert.deepEqual(await caches(page), ["another"]);

    await host.close();
    await context.setOffline(true);
    await page.reload();
    await endedWell(page);
    assert.equal(await page.title(), "ServeLab anew");
    await context.setOffline(false);
    await host.open();
  },
);
