// The simulator as functions, for whoever can load its wasm: `index.js` and `node.js` differ in that alone.
import init, { RunWork, SweepWork, presets as presetsText, spec as specText, sweepChart as chartOf } from "./servelab.js";

/** Work that is done before others are let through, ms, and the events between two looks at the clock. */
const SLICE_MS = 10;
const EVENTS = 256;
/** Progress is told this often at most, ms. */
const TELL_MS = 50;

export const version = "0.1.0";

/** A value that can not be used: `path` is its field (`workload.rate`), `found` what stood there, `accepted` what would be accepted. */
export class SpecError extends Error {
  constructor(message, { path, found, accepted } = {}) {
    super(message);
    this.name = "SpecError";
    this.path = path;
    this.found = found;
    this.accepted = accepted;
  }
}

/** What the wasm throws as errors of JavaScript. */
function said(work) {
  try {
    return work();
  } catch (thrown) {
    if (thrown instanceof WebAssembly.RuntimeError) {
      throw new Error(`the simulator stopped: its memory is exhausted, or it has a fault (${thrown.message})`, { cause: thrown });
    }
    if (thrown instanceof Error) throw thrown;
    throw thrown?.path === undefined ? new Error(thrown?.message ?? String(thrown)) : new SpecError(thrown.message, thrown);
  }
}

/** What is asked for, as text: an address as it is, anything else as JSON. */
function asText(asked) {
  if (typeof asked === "string") return asked;
  let reason = String(asked);
  try {
    const text = asked !== null && typeof asked === "object" ? JSON.stringify(asked) : undefined;
    if (text !== undefined) return text;
  } catch (error) {
    // Big integers and what holds itself have no JSON.
    reason = error.message;
  }
  const accepted = "accepted are an object with a preset and what differs from it, a whole spec, a report, or the text of an address";
  throw new SpecError(`spec: ${reason} is not accepted; ${accepted}`, { path: "spec", found: reason, accepted });
}

/** Turns of the event loop, without the milliseconds that timers add. */
function turns() {
  if (typeof setImmediate === "function") return { next: () => new Promise((resolve) => setImmediate(resolve)), end() {} };
  const { port1, port2 } = new MessageChannel();
  return {
    next: () => new Promise((resolve) => ((port1.onmessage = resolve), port2.postMessage(null))),
    end: () => port1.close(),
  };
}

/** As `promise`, or as soon as `signal` says so. */
async function unlessAborted(promise, signal) {
  if (!signal) return promise;
  let stop;
  const aborted = new Promise((_, reject) => signal.addEventListener("abort", (stop = () => reject(signal.reason)), { once: true }));
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** The functions over a wasm that `load` brings as bytes. */
export function simulator(load) {
  let loading;
  const ready = () =>
    (loading ??= load()
      .then((bytes) => init({ module_or_path: bytes }))
      .catch((error) => {
        // The next call tries again.
        loading = undefined;
        throw new Error(`the simulator's wasm can not be loaded: ${error.message}`, { cause: error });
      }));

  async function drive(make, { onProgress, signal } = {}) {
    signal?.throwIfAborted();
    const tell = (stage, work) => onProgress?.({ stage, fraction: work?.fraction ?? 0, policy: work?.policy ?? 0, t_s: work?.t_s ?? 0 });
    const turn = turns();
    let work;
    const next = async () => {
      await turn.next();
      signal?.throwIfAborted();
    };
    try {
      tell("loading");
      await unlessAborted(ready(), signal);
      tell("building");
      await next();
      work = said(make);
      let told = performance.now();
      for (let done = false; !done; await next()) {
        const until = performance.now() + SLICE_MS;
        do done = said(() => work.advance(EVENTS));
        while (!done && performance.now() < until);
        if (!done && performance.now() - told >= TELL_MS) {
          told = performance.now();
          tell("running", work);
        }
      }
      tell("running", work);
      tell("reporting", work);
      await next();
      return said(() => work.report());
    } finally {
      turn.end();
      try {
        work?.free();
      } catch {
        // What a fault has interrupted can not be given back.
      }
    }
  }

  const runText = async (asked, options) => {
    const text = asText(asked);
    return drive(() => new RunWork(text), options);
  };
  const sweepText = async ({ spec: asked, axes, seeds } = {}, options) => {
    const [text, rest] = [asText(asked), JSON.stringify({ axes, seeds })];
    return drive(() => new SweepWork(text, rest), options);
  };
  return {
    runText,
    sweepText,
    run: async (asked, options) => JSON.parse(await runText(asked, options)),
    sweep: async (asked, options) => JSON.parse(await sweepText(asked, options)),
    async spec(asked) {
      const text = asText(asked);
      await ready();
      return JSON.parse(said(() => specText(text)));
    },
    async sweepChart(report, asked) {
      const request = { width: 720, height: 400, dark: false, ...asked };
      await ready();
      return said(() => chartOf(JSON.stringify(report), JSON.stringify(request)));
    },
    async presets() {
      await ready();
      return JSON.parse(said(presetsText));
    },
  };
}
