// Starts the page's wasm. A file of its own, so that the Content-Security-Policy can forbid inline script.
const boot = document.getElementById("boot");
const status = document.getElementById("boot-status");

const NEEDS = {
  wasm: "It needs WebAssembly, which this browser lacks or forbids (some do in a lockdown or safest mode).",
  simd: "It needs WebAssembly with SIMD: Chrome or Edge 91, Firefox 89, Safari 16.4 or newer, on a processor of the last fifteen years.",
  other: "Reloading may help.",
};

function lacks(error) {
  if (typeof WebAssembly !== "object") return "wasm";
  return error instanceof WebAssembly.CompileError && /simd/i.test(error.message) ? "simd" : "other";
}

// Shows how much has come; the total is unknown when the host compresses, so only what has arrived is said.
function counted(response) {
  if (!response.ok) throw new Error(`${response.status} for ${response.url}`);
  if (!response.body) return response;
  let received = 0;
  const counter = new TransformStream({
    transform(chunk, controller) {
      received += chunk.byteLength;
      status.textContent = `Loading the page, ${Math.round(received / 1024)} kB…`;
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(counter), { headers: { "Content-Type": "application/wasm" } });
}

try {
  const [{ default: init }, response] = await Promise.all([
    import(new URL(boot.dataset.js, document.baseURI)),
    fetch(new URL(boot.dataset.wasm, document.baseURI)),
  ]);
  await init({ module_or_path: counted(response) });
  document.getElementById("shell").remove();
} catch (error) {
  status.setAttribute("role", "alert");
  status.textContent = `The page could not start: ${error.message}. ${NEEDS[lacks(error)]}`;
  throw error;
}
