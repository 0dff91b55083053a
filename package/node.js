// In Node.js.
import { readFile } from "node:fs/promises";
import { SpecError, simulator, version } from "./core.js";

export { SpecError, version };
export const { run, runText, sweep, sweepText, sweepChart, spec, presets } = simulator(() => readFile(new URL("./servelab_bg.wasm", import.meta.url)));
