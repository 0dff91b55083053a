// Everyone: every view against WCAG 2.2 AA by axe-core, light and dark; everything by keyboard; narrow, enlarged, in forced colours.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { accessible, violations, withAxe } from "./axe.mjs";
import { base, endedWell, pageTest } from "./lib.mjs";

const data = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "crates", "workload", "tests", "data");
const calm = { open: false, reducedMotion: "reduce", timeout: 180_000 };

async function goto(page, path) {
  await withAxe(page);
  await page.goto(new URL(path, base).href);
}

/** Opens everything that is folded, of a part or of the whole page. */
async function unfold(page, within = "main") {
  // What opens may hold more that is folded.
  for (let round = 0; round < 3; round += 1) {
    await page.evaluate((within) => document.querySelectorAll(`${within} details:not([open])`).forEach((details) => (details.open = true)), within);
    await page.waitForTimeout(50);
  }
}

pageTest("axe: the first screen, the guided path, the lesson after its run", calm, async ({ page }) => {
  await goto(page, "#preset=multi-tenant");
  await page.getByTestId("predict").waitFor();
  await accessible(page, "first screen");
  await page.getByTestId("path").locator("summary").click();
  await accessible(page, "path", ".path");
  // The first preset runs at once.
  await endedWell(page);
  await page.getByTestId("lesson").waitFor();
  await accessible(page, "after the run");
  await page.getByTestId("next-lesson").click();
  await page.getByTestId("guess-0").check();
  await accessible(page, "a guess", ".question");
});

pageTest("axe: why, story, everything unfolded, the command, the panel for authors, the glossary", calm, async ({ page }) => {
  await goto(page, "#preset=book-trace");
  await endedWell(page);
  await page.locator(".pill:visible").first().click();
  await page.getByTestId("why-text").waitFor();
  await accessible(page, "why", ".show");
  await page.getByTestId("why-text").click();
  await page.getByTestId("story").locator("dl").waitFor();
  await accessible(page, "story", ".story");
  await page.keyboard.press("Escape");
  await page.getByTestId("open-terminal").click();
  await unfold(page);
  await accessible(page, "unfolded");
  await page.getByTestId("side-by-side").click();
  await accessible(page, "side by side", ".show");
});

pageTest("axe: sweep, map and knee", calm, async ({ page }) => {
  await goto(page, "#preset=multi-tenant&workload.requests=60&policies=round_robin,prefix_affinity");
  await endedWell(page);
  await page.getByTestId("study-open").click();
  for (const [at, key, values] of [[0, "workload.rate", "0.5, 2"], [1, "replicas", "2, 4"]]) {
    await page.getByTestId(`axis-${at}`).selectOption(key);
    await page.getByTestId(`axis-${at}-spacing`).selectOption("list");
    await page.getByTestId(`axis-${at}-list`).fill(values);
    await page.getByTestId(`axis-${at}-list`).press("Tab");
  }
  for (const name of ["sweep", "knee"]) {
    await page.getByTestId(`${name}-seeds`).fill("2");
    await page.getByTestId(`${name}-seeds`).press("Tab");
    await page.getByTestId(`${name}-run`).click();
    await page.waitForFunction((name) => document.querySelector(`[data-testid=${name}-status]`)?.textContent === "done", name);
  }
  await page.getByTestId("knee-ttft").locator("svg").waitFor();
  await unfold(page, ".study");
  await accessible(page, "sweep and knee", ".study");
});

pageTest("axe: traffic, the model that writes, the cold start, devices", calm, async ({ page }) => {
  await goto(page, "#preset=book-trace");
  await endedWell(page);
  await page.getByTestId("traffic").locator("summary").first().click();
  await page.getByTestId("traffic-file").setInputFiles({ name: "mooncake.jsonl", mimeType: "", buffer: readFileSync(join(data, "mooncake.jsonl")) });
  await page.getByTestId("traffic_cache").locator("svg").waitFor();
  await page.getByTestId("write").locator("summary").first().click();
  await page.getByTestId("write-tokens").fill("8");
  await page.getByTestId("write-own").fill("BAKER:");
  await page.getByTestId("write-go").click();
  await page.waitForFunction(() => document.querySelector("[data-testid=write-go]").textContent === "Stop");
  await page.waitForFunction(() => document.querySelector("[data-testid=write-go]").textContent === "Write");
  await page.getByTestId("cold").locator("summary").first().click();
  await page.getByTestId("cold-from").selectOption("h100_70b");
  await page.getByTestId("cold-stages").waitFor();
  for (const part of ["traffic", "write", "cold"]) {
    await unfold(page, `[data-testid=${part}]`);
    await accessible(page, part, `[data-testid=${part}]`);
  }
});

pageTest("axe: autoscalers and their signals", calm, async ({ page }) => {
  await goto(page, `#preset=node-loss&events.crash=0&workload.curve=${encodeURIComponent("0:0.3,0.2:0.3,0.21:1.2,0.6:1.2")}&replicas=2`);
  await endedWell(page);
  await page.getByTestId("foresight").locator("summary").first().click();
  await page.getByTestId("foresight-ask").click();
  await page.getByTestId("foresight-table").waitFor();
  await page.getByTestId("chart-demand_and_capacity").locator("svg").waitFor();
  await unfold(page, ".results");
  await accessible(page, "scaling");
});

for (const [name, path, table] of [
  ["a storm", "#preset=retry-storm", "clients-table"],
  ["a gateway that turns away", "#preset=noisy-tenant&gateway.rate_per_s=1", "refusal-table"],
]) {
  pageTest(`axe: ${name}`, calm, async ({ page }) => {
    await goto(page, path);
    await page.getByTestId("run").click();
    await endedWell(page);
    await page.getByTestId(table).waitFor();
    await unfold(page, ".results");
    await accessible(page, name);
  });
}

pageTest("axe: a link that is partly wrong, a setting that is refused", calm, async ({ page }) => {
  await goto(page, "#preset=book-trace&replicas=many&nonsense=1");
  await endedWell(page);
  await page.getByLabel("Replicas", { exact: true }).fill("100000");
  await page.getByLabel("Replicas", { exact: true }).press("Tab");
  await page.getByTestId("controls").getByRole("alert").waitFor();
  await accessible(page, "refused");
});

pageTest("axe: on a phone, and inside another page", { ...calm, size: "phone" }, async ({ page }) => {
  await goto(page, "#preset=book-trace");
  await endedWell(page);
  await page.getByTestId("chart-ttft_cdf").locator("svg").waitFor();
  await accessible(page, "phone");
  const address = new URL("host.html", base).href;
  await page.route(address, (route) =>
    route.fulfill({
      contentType: "text/html",
      body: `<!DOCTYPE html><html lang="en"><head><title>A course</title><script src="./embed.js" async></script></head><body><main><h1>A course</h1>
        <serve-lab experiment="book-trace" show="question stage controls results"></serve-lab></main></body></html>`,
    }),
  );
  await page.goto(address);
  await page.frameLocator("serve-lab iframe").getByTestId("findings").waitFor();
  const lines = await violations(page);
  assert.deepEqual(lines, [], lines.join("\n"));
});

/** What has the focus: what it is called, whether it is to be seen, and what marks it. */
const focused = () => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const style = getComputedStyle(element);
  const rect = element.getBoundingClientRect();
  // A control without a face of its own is marked on its label.
  const seen = rect.width > 1 && rect.height > 1 && rect.bottom > 0 && rect.top < innerHeight && rect.right > 0 && rect.left < innerWidth;
  const marked = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const name = `${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ""}.${element.className} "${(element.getAttribute("aria-label") ?? element.textContent ?? "").slice(0, 40)}"`;
  window.tabbed ??= [];
  const before = window.tabbed.indexOf(element);
  if (before < 0) window.tabbed.push(element);
  return { name, seen, marked, again: before >= 0 };
};

for (const scheme of ["light", "dark"]) {
  pageTest(`the tab key goes through the whole page, and where it is can be seen (${scheme})`, { path: "#preset=book-trace", reducedMotion: "reduce", scheme, timeout: 180_000 }, async ({ page }) => {
    await endedWell(page);
    await page.getByTestId("chart-ttft_cdf").locator("svg").waitFor();
    await page.evaluate(() => (document.activeElement?.blur(), scrollTo(0, 0)));
    const wrong = [];
    let stops = 0;
    for (; stops < 900; stops += 1) {
      await page.keyboard.press("Tab");
      const now = await page.evaluate(focused);
      if (!now || now.again) break;
      if (!now.seen || !now.marked) wrong.push(`${now.name}: ${now.seen ? "" : "not in sight "}${now.marked ? "" : "no outline"}`);
    }
    assert.ok(stops > 60 && stops < 900, `${stops} stops`);
    assert.deepEqual(wrong, [], wrong.join("\n"));
    const missed = await page.evaluate(() => {
      const all = [...document.querySelectorAll("button:not(:disabled), select, input:not([type=radio]):not(:disabled), summary, [tabindex='0']")];
      return all
        .filter((element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest("[inert]") && !window.tabbed.includes(element) && element.tabIndex >= 0)
        .map((element) => element.outerHTML.slice(0, 120));
    });
    assert.deepEqual(missed, [], `never reached:\n${missed.join("\n")}`);
  });
}

/** What makes the page wider than its window, if it is. */
const wide = () => {
  const width = document.documentElement.clientWidth;
  if (document.scrollingElement.scrollWidth <= width) return [];
  // The widest, without their children.
  const out = [...document.querySelectorAll("body *")].filter((element) => {
    const rect = element.getBoundingClientRect();
    let box = element.parentElement;
    for (; box && box !== document.body; box = box.parentElement) if (getComputedStyle(box).overflowX !== "visible") return false;
    return rect.width > 0 && rect.right > width + 0.5;
  });
  return [`${document.scrollingElement.scrollWidth} pixels of ${width}`, ...out.slice(-6).map((element) => `${element.tagName}.${element.className} ${element.dataset.testid ?? ""} to ${Math.round(element.getBoundingClientRect().right)}`)];
};

/** Views with everything unfolded, for those who see little of them at once. */
const views = [
  ["a trace", "#preset=book-trace", async (page) => {
    await page.locator(".pill:visible").first().click();
    await page.getByTestId("open-terminal").click();
    await page.getByTestId("cold-from").selectOption("h100_70b");
    await page.getByTestId("cold-stages").waitFor();
    await page.getByTestId("traffic-file").setInputFiles({ name: "mooncake.jsonl", mimeType: "", buffer: readFileSync(join(data, "mooncake.jsonl")) });
    await page.getByTestId("traffic_cache").locator("svg").waitFor();
  }],
  ["a guess", "#preset=multi-tenant&workload.requests=60", async (page) => {
    await page.getByTestId("sweep-run").click();
    await page.waitForFunction(() => document.querySelector("[data-testid=sweep-status]")?.textContent === "done");
  }],
  ["autoscalers", `#preset=node-loss&events.crash=0&workload.curve=${encodeURIComponent("0:0.3,0.2:0.3,0.21:1.2,0.6:1.2")}&replicas=2`, async () => {}],
  ["a storm", "#preset=retry-storm", async () => {}],
];

for (const [name, path, prepare] of views) {
  pageTest(`nothing sticks out at 320 pixels, nor with text twice as large: ${name}`, { path, reducedMotion: "reduce", timeout: 180_000 }, async ({ page, shot }) => {
    await page.getByTestId("run").waitFor();
    if (await page.getByTestId("predict").count()) await page.getByTestId("run").click();
    await endedWell(page);
    await page.getByTestId("study-open").click();
    await unfold(page);
    await prepare(page);
    const wrong = [];
    const check = async (width, text) => {
      await page.setViewportSize({ width, height: 800 });
      await page.evaluate((text) => (document.documentElement.style.fontSize = text), text);
      await page.waitForTimeout(400);
      wrong.push(...(await page.evaluate(wide)).map((line) => `${width} pixels, text ${text}: ${line}`));
      if (name === "a trace") await shot(`everyone ${width} ${text}`);
    };
    await check(320, "100%");
    await check(768, "100%");
    await check(1280, "200%");
    await check(640, "200%");
    await check(3840, "100%");
    assert.deepEqual(wrong, [], wrong.join("\n"));
  });
}

pageTest("in forced colours what was colour is still there", { path: "#preset=book-trace", reducedMotion: "reduce", forcedColors: "active" }, async ({ page, shot }) => {
  await endedWell(page);
  await page.getByTestId("chart-ttft_cdf").locator("svg").waitFor();
  const same = await page.evaluate(() => {
    const ground = getComputedStyle(document.body).backgroundColor;
    const parts = [".bar-fill", ".dot-ready", ".tab-on", ".swatch"];
    return parts.filter((part) => {
      const element = document.querySelector(part);
      return !element || ["rgba(0, 0, 0, 0)", ground, getComputedStyle(document.documentElement).backgroundColor].includes(getComputedStyle(element).backgroundColor);
    });
  });
  await shot("forced colours", { fullPage: true });
  assert.deepEqual(same, [], "told from the ground by nothing");
});
