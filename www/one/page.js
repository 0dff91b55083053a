// Starts the page where everything is in one file (`servelab.html`): its wasm, and the scripts, wasm and files of its workers, lie in the file as text.
// Follows wasm-bindgen's script, which is classic, in one inline module: the policy of this file names its hash.
const kept = (name) => document.getElementById(`kept:${name}`)?.textContent;

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

// What the page calls in place of asking for `worker.js`.
globalThis.servelabWorker = (name) => {
  const missing = `postMessage({ type: "stopped", message: "this file holds the page without ${/^[a-z-]+$/.test(name) ? name : "it"}" })`;
  const script = kept(`${name}.js`);
  const address = URL.createObjectURL(new Blob([script ?? missing], { type: "text/javascript" }));
  const worker = new Worker(address);
  if (script) {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data: file }) => port1.postMessage(kept(file) ?? null);
    worker.postMessage({ wasm: kept(`${name}.wasm`), files: port2 }, [port2]);
  }
  return worker;
};

const status = document.getElementById("boot-status");
try {
  await wasm_bindgen({ module_or_path: await unpacked(kept("servelab-web.wasm")) });
  document.getElementById("shell").remove();
} catch (error) {
  status.setAttribute("role", "alert");
  status.textContent = `The page could not start: ${error.message}. It needs a current browser with WebAssembly.`;
  throw error;
}
