// First script of every worker: fetches the wasm that `?name=` asks for, tells the page how many bytes have come, and
// starts it. The wasm then speaks for itself, beginning with `ready`.
const name = new URL(self.location.href).searchParams.get("name") ?? "";

function counted(response) {
  if (!response.ok) throw new Error(`${response.status} for ${name}_bg.wasm`);
  if (!response.body) return response;
  let received = 0;
  let said = 0;
  const counter = new TransformStream({
    transform(chunk, controller) {
      received += chunk.byteLength;
      if (received - said > 65536) {
        said = received;
        self.postMessage({ type: "loading", received });
      }
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(counter), { headers: { "Content-Type": "application/wasm" } });
}

try {
  if (!/^servelab-[a-z-]+$/.test(name)) throw new Error(`no worker is called "${name}"`);
  const [{ default: init }, response] = await Promise.all([
    import(new URL(`./${name}.js`, import.meta.url)),
    fetch(new URL(`./${name}_bg.wasm`, import.meta.url)),
  ]);
  await init({ module_or_path: counted(response) });
} catch (error) {
  self.postMessage({ type: "stopped", message: String(error?.message ?? error) });
}
