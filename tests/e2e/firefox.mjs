// Which Firefox: Playwright drives only one of its own build, so Puppeteer drives the one that is installed, by WebDriver BiDi.
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import puppeteer from "puppeteer-core";

const names = ["firefox-esr", "firefox"];

/** The program; nothing where there is none. */
export const program =
  process.env.SERVELAB_FIREFOX ??
  (process.env.PATH ?? "").split(delimiter).flatMap((folder) => names.map((name) => join(folder, name))).find(existsSync);

export const missing = "no Firefox: install one (Debian: `apt-get install firefox-esr`) or name its program in SERVELAB_FIREFOX";

export function launch() {
  return puppeteer.launch({ browser: "firefox", executablePath: program, headless: true });
}
