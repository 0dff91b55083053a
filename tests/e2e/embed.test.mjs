// The page inside other pages: one script, one tag, several at once; and the panel that writes the tag.
import assert from "node:assert/strict";
import { base, endedWell, pageTest, shotsOf } from "./lib.mjs";

/** A host page of somebody else's, served under the test server's own address since a watched page may talk to no other. */
async function host(page, body, head = "") {
  const address = new URL("host.html", base).href;
  await page.route(address, (route) =>
    route.fulfill({
      contentType: "text/html",
      body: `<!DOCTYPE html><html lang="en"><head><title>A course</title>${head}<script src="./embed.js" async></script></head><body><h1>A course</h1>${body}</body></html>`,
    }),
  );
  await page.goto(address);
}

const calm = { open: false, reducedMotion: "reduce", timeout: 90_000 };

pageTest("one tag shows an experiment, grows to its height and says when its run has ended", calm, async ({ page }) => {
  await host(
    page,
    `<serve-lab experiment="book-trace" policies="round-robin,prefix-affinity(guard=0)" show="stage results"></serve-lab>
     <script>window.reports = []; addEventListener("servelab:finished", (event) => reports.push(event.detail));</script>`,
  );
  const frame = page.frameLocator("serve-lab iframe");
  await frame.getByTestId("findings").waitFor();
  await page.waitForFunction(() => window.reports.length === 1);
  const hits = await page.evaluate(() => window.reports[0].policies.map((policy) => policy.reuse.hit_tokens));
  assert.deepEqual(hits, [2464, 7424], "the report is the event's detail");
  for (const [part, seen] of [[".head", false], [".controls", false], [".charts", false], [".show", true], [".results", true]]) {
    assert.equal(await frame.locator(part).first().isVisible(), seen, part);
  }
  const fits = () => {
    const frame = document.querySelector("serve-lab iframe");
    return Math.abs(frame.clientHeight - frame.contentDocument.body.getBoundingClientRect().height) <= 1;
  };
  await page.waitForFunction(fits);
  await shotsOf(page, "embed", { fullPage: true });
});

pageTest("what is wrong with a tag is seen in its frame", calm, async ({ page }) => {
  await host(page, `<serve-lab experiment="no-such" show="stage results"></serve-lab>`);
  const notice = page.frameLocator("serve-lab iframe").getByTestId("notice");
  await notice.waitFor();
  assert.match(await notice.textContent(), /no-such/);
});

pageTest("several at once, none before the reader comes near, each with settings of its own", calm, async ({ page }) => {
  await host(
    page,
    `<serve-lab id="near" experiment="book-trace" show="stage"></serve-lab>
     <div style="height:6000px"></div>
     <serve-lab id="far" set="preset=multi-tenant&workload.requests=50" controls="workload.rate" fixed="replicas"></serve-lab>`,
  );
  const far = page.locator("#far iframe");
  await page.frameLocator("#near iframe").locator(".show").waitFor();
  assert.equal(await far.getAttribute("src"), null, "far away nothing is loaded");
  await page.locator("#far").scrollIntoViewIfNeeded();
  const inside = page.frameLocator("#far iframe");
  await inside.locator("#set-workload-rate").waitFor();
  assert.equal(await inside.locator("#set-workload-requests").isVisible(), false);
  await page.waitForFunction(() => document.querySelector("#far iframe").contentDocument.querySelector("#set-replicas")?.closest("[inert]"));
  assert.equal(await inside.locator("#set-replicas").isVisible(), true, "fixed, and there to be read");
});

pageTest("the panel writes a tag that shows what is set", { path: "#preset=book-trace&replicas=3", reducedMotion: "reduce", timeout: 90_000 }, async ({ page }) => {
  await endedWell(page);
  await page.getByTestId("embed").locator("summary").click();
  await page.getByTestId("embed-charts").uncheck();
  await page.getByTestId("embed-settings").fill("replicas");
  const code = await page.getByTestId("embed-code").textContent();
  assert.match(code, /embed\.js" async><\/script>\n<serve-lab set="v=1&amp;preset=book-trace&amp;replicas=3" show="question predict stage results" controls="replicas">/);
  await page.getByTestId("embed-copy").click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), code);
  await shotsOf(page, "embed-panel");
});

/** A host in the manner of books that keep themes as classes: nothing but its paint says which. */
const themes = `<style>
  html { background: var(--bg); transition: background-color 0.2s; } body { color: var(--ink); }
  .light { --bg: hsl(0 0% 100%); --ink: #333; } .coal { --bg: hsl(200 7% 8%); --ink: #98a3ad; } .navy { --bg: oklch(0.24 0.04 270); --ink: #bcbdd0; }
  .scheme-dark { color-scheme: dark; --bg: transparent; }
</style><script>document.documentElement.className = "light";</script>`;

// Without a scheme of the test's own, which would be forced on frames as well.
pageTest("it follows a host that switches its theme by a class, by color-scheme, or with the system", { ...calm, scheme: null }, async ({ page, shot }) => {
  await host(page, `<serve-lab experiment="book-trace" show="results"></serve-lab><serve-lab id="told" scheme="light" experiment="book-trace" show="stage" height="300"></serve-lab>`, themes);
  await page.frameLocator("serve-lab:not(#told) iframe").getByTestId("findings").waitFor();
  const dark = (name) => page.evaluate((name) => document.querySelector(`serve-lab${name} iframe`).contentWindow.matchMedia("(prefers-color-scheme: dark)").matches, name);
  const becomes = async (theme, expected) => {
    await page.evaluate((theme) => (document.documentElement.className = theme), theme);
    await page.waitForFunction((expected) => document.querySelector("serve-lab iframe").contentWindow.matchMedia("(prefers-color-scheme: dark)").matches === expected, expected);
    assert.equal(await dark("#told"), false, "what is told stays");
  };
  assert.equal(await dark(":not(#told)"), false);
  await becomes("coal", true);
  await shot("embed-theme");
  await becomes("light", false);
  await becomes("navy", true);
  await becomes("light", false);
  // Nothing painted: the frame has the scheme that it stands in.
  await becomes("scheme-dark", true);
  await becomes("light", false);
  await page.addStyleTag({ content: "@media (prefers-color-scheme: dark) { html.light { --bg: #111; } }" });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForFunction(() => document.querySelector("serve-lab iframe").style.colorScheme === "dark");
});

pageTest("the script is small and needs nothing", { open: false }, async () => {
  const text = await (await fetch(new URL("embed.js", base))).text();
  assert.ok(text.length < 5000, `${text.length} bytes`);
  assert.doesNotMatch(text, /\bimport\b|\brequire\b|localStorage|indexedDB/);
});
