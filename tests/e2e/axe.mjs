// axe-core on a page: injected before the page's own scripts, where no policy of the page's forbids it, and in every frame.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What WCAG 2.2 asks for at levels A and AA. */
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

/** Brings axe-core to every document that the page opens from now on. */
export function withAxe(page) {
  return page.addInitScript(source);
}

/**
 * What axe-core finds wrong on the page as it stands, a line each.
 *
 * @param {string} [within] selector of the part to look at; the whole page when absent
 */
export async function violations(page, within) {
  const found = await page.evaluate(
    async ([tags, within]) => {
      const { violations, passes } = await axe.run(within ?? document, {
        runOnly: { type: "tag", values: tags },
        resultTypes: ["violations"],
      });
      // A request on the stage is as small as the picture needs; the field for its number, which is large enough, does the same (WCAG 2.5.8, "equivalent").
      const small = (id, node) => id === "target-size" && /^<button[^>]* class="[^"]*\bpill\b/.test(node.html);
      const lines = violations.flatMap(({ id, help, nodes }) =>
        nodes.filter((node) => !small(id, node)).slice(0, 8).map((node) => `${id} (${help}): ${node.target.join(" ")}: ${node.any.concat(node.all, node.none).map((check) => check.message).join("; ")}`),
      );
      return { lines, passed: passes.length };
    },
    [tags, within],
  );
  // A run that looked at nothing has found nothing, too.
  assert.ok(found.passed >= 5, `axe-core looked at ${found.passed} rules`);
  return found.lines;
}

/** Demands that a view, in light and in dark, has nothing that axe-core finds. */
export async function accessible(page, label, within) {
  const all = [];
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.locator(`:root[data-scheme=${scheme}]`).waitFor();
    // Pictures are drawn anew by a worker.
    await page.waitForTimeout(250);
    all.push(...(await violations(page, within)).map((line) => `${label}, ${scheme}: ${line}`));
  }
  assert.deepEqual(all, [], `${all.length} found:\n${all.join("\n")}\n`);
}
