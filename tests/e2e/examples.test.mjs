// The examples for authors, each in the manner in which its tool puts it before a reader (`embed/`, written by hand).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { base, pageTest } from "./lib.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const examples = join(here, "../../examples/embed");
const source = (name) => readFileSync(join(examples, name), "utf8");
const emitted = (name) => readFileSync(join(here, "embed", `${name}.html`), "utf8");
const HOME = "https://example.org/servelab/";

/** A page of a host, which has the built folder beside it. */
async function hosted(page, html) {
  const address = new URL("course.html", base).href;
  await page.route(address, (route) => route.fulfill({ contentType: "text/html", body: html.replaceAll(HOME, "./") }));
  await page.goto(address);
}

const calm = { open: false, reducedMotion: "reduce", timeout: 90_000 };
const finished = (page, many) => page.waitForFunction((many) => window.finished?.length >= many, many);
const listening = (page) => page.addInitScript(() => self === top && addEventListener("servelab:finished", ({ detail }) => (self.finished ??= []).push(detail.policies.map(({ name }) => name))));

test("what tools emit holds what the examples say", () => {
  const tag = /<serve-lab [^>]*><\/serve-lab>/;
  const [wanted] = tag.exec(source("mdbook/src/routing.md"));
  for (const name of ["quarto/index.qmd", "myst/index.md", "reveal/index.html"]) assert.match(source(name), /<serve-lab [^>]*experiment="multi-tenant"/, name);
  for (const name of ["mdbook", "quarto", "sphinx", "notebook"]) assert.equal(tag.exec(emitted(name))[0], wanted, name);
  assert.equal(tag.exec(JSON.parse(source("notebook/cell.ipynb")).cells[1].outputs[0].data["text/html"].join(""))[0], wanted);
  const frame = /https:\S+#\S+/.exec(source("myst/index.md"))[0];
  assert.ok(emitted("myst").replaceAll("&amp;", "&").includes(frame), frame);
});

for (const name of ["mdbook", "quarto", "sphinx", "notebook"]) {
  pageTest(`${name}: the tag runs where the tool puts it`, calm, async ({ page, shot }) => {
    await listening(page);
    await hosted(page, emitted(name));
    await page.locator("serve-lab").scrollIntoViewIfNeeded();
    await page.frameLocator("serve-lab iframe").getByTestId("findings").waitFor();
    await finished(page, 1);
    assert.deepEqual(await page.evaluate(() => window.finished[0]), ["round_robin", "prefix_affinity"]);
    await shot(`example-${name}`);
  });
}

pageTest("mdbook and quarto: it follows the theme that a reader chooses", { ...calm, scheme: null }, async ({ page }) => {
  const dark = (expected) => page.waitForFunction((expected) => document.querySelector("serve-lab iframe").contentWindow.matchMedia("(prefers-color-scheme: dark)").matches === expected, expected);
  await hosted(page, emitted("mdbook"));
  await page.frameLocator("serve-lab iframe").locator(".show").waitFor();
  for (const [theme, expected] of [["navy", true], ["rust", false], ["ayu", true], ["light", false], ["coal", true]]) {
    await page.evaluate((theme) => (document.documentElement.className = `${theme} sidebar-visible`), theme);
    await dark(expected);
  }
  await hosted(page, emitted("quarto"));
  await page.frameLocator("serve-lab iframe").locator(".show").waitFor();
  await page.evaluate(() => document.body.classList.replace("quarto-light", "quarto-dark"));
  await dark(true);
});

pageTest("plain HTML: two on a page, and the host hears of both", calm, async ({ page, shot }) => {
  await listening(page);
  await hosted(page, source("plain.html"));
  await page.frameLocator("serve-lab iframe").first().getByTestId("findings").waitFor();
  await page.locator("serve-lab").nth(1).scrollIntoViewIfNeeded();
  await page.frameLocator("serve-lab iframe").nth(1).locator("#set-workload-rate").waitFor();
  await finished(page, 2);
  assert.match(await page.locator("#said").textContent(), /From the cache came: .* \d+ %/);
  await shot("example-plain", { fullPage: true });
});

pageTest("MyST: a frame by its address shows the parts that it asks for", calm, async ({ page, shot }) => {
  await hosted(page, emitted("myst"));
  const frame = page.frameLocator("iframe");
  await frame.getByTestId("findings").waitFor();
  assert.equal(await frame.locator(".controls").first().isVisible(), false);
  await shot("example-myst");
});

// What matters of a deck: slides are scaled, and those that are not the present one are not displayed.
const deck = `
  const slides = [...document.querySelectorAll(".slides > section")];
  const show = (at) => slides.forEach((slide, index) => (slide.style.display = index === at ? "block" : "none"));
  self.Reveal = { initialize: () => show(0), slide: show };`;

pageTest("reveal.js: nothing before its slide, then an experiment on it", calm, async ({ page, shot }) => {
  await page.route(/node_modules\/reveal\.js/, (route) => {
    const script = route.request().url().endsWith(".js");
    return route.fulfill(script ? { contentType: "text/javascript", body: deck } : { contentType: "text/css", body: ".slides { width: 1200px; height: 700px; transform: scale(0.8); } body { background: #191919; color: #fff; }" });
  });
  await listening(page);
  await hosted(page, source("reveal/index.html"));
  await page.waitForFunction(() => customElements.get("serve-lab"));
  const frames = page.locator("serve-lab iframe");
  assert.deepEqual(await frames.evaluateAll((all) => all.map((frame) => frame.getAttribute("src"))), [null, null]);
  await page.evaluate(() => Reveal.slide(1));
  await page.frameLocator("serve-lab iframe").first().locator(".show").waitFor();
  await finished(page, 1);
  assert.equal(await frames.nth(1).getAttribute("src"), null);
  await shot("example-reveal");
  await page.evaluate(() => Reveal.slide(2));
  await page.frameLocator("serve-lab iframe").nth(1).getByTestId("findings").waitFor();
  await finished(page, 2);
});
