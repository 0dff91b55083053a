// In a browser's page or worker. The wasm is fetched from beside this file and read as bytes, so its host may call it whatever type it likes.
import { SpecError, simulator, version } from "./core.js";

export { SpecError, version };
export const { run, runText, sweep, sweepText, sweepChart, spec, presets } = simulator(async () => {
  const answer = await fetch(new URL("./servelab_bg.wasm", import.meta.url));
  if (!answer.ok) throw new Error(`status ${answer.status} for ${answer.url}`);
  return answer.arrayBuffer();
});
