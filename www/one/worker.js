// Starts a worker where everything is in one file: follows wasm-bindgen's script in a classic worker. Its wasm, packed, comes with the first message;
// files that it would fetch from beside it are asked for through a port.
self.onmessage = async ({ data: { wasm, files } }) => {
  self.onmessage = null;
  async function unpacked(text) {
    const packed = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  }
  const waiting = [];
  files.onmessage = ({ data }) => waiting.shift()(data);
  const fetched = self.fetch;
  self.fetch = async (address, options) => {
    // Anything with a place of its own is not beside this worker: a file of the visitor's, for instance.
    const name = /^\.\/([^?]*)/.exec(address)?.[1];
    if (name === undefined) return fetched(address, options);
    const text = await new Promise((resolve) => (waiting.push(resolve), files.postMessage(name)));
    if (text === null) throw new Error("this file holds the page without it");
    return new Response(await unpacked(text));
  };
  try {
    await wasm_bindgen({ module_or_path: await unpacked(wasm) });
  } catch (error) {
    self.postMessage({ type: "stopped", message: String(error?.message ?? error) });
  }
};
