// A host of somebody else's: the built folder under a path of its choice, with few headers, among pages of its own.
import { createServer } from "node:http";
import { base } from "./lib.mjs";

export class Host {
  /** Files that were asked for, by name. */
  asked = [];
  /** What is changed in a file on its way, by name. */
  changed = {};
  /** Pages of the host, by name. */
  pages = {};

  constructor(path = "/") {
    this.path = path;
  }

  /** Answers from now on, at the same address each time. */
  async open() {
    this.server = createServer((request, response) => this.answer(request.url, response).catch(() => response.destroy()));
    await new Promise((resolve) => this.server.listen(this.port ?? 0, "127.0.0.1", resolve));
    this.port = this.server.address().port;
    return `http://127.0.0.1:${this.port}${this.path}`;
  }

  async answer(url, response) {
    const name = url.startsWith(this.path) ? url.slice(this.path.length).replace(/\?.*/, "") || "index.html" : undefined;
    if (name === undefined) return response.writeHead(404).end();
    if (this.pages[name]) return response.writeHead(200, { "Content-Type": "text/html" }).end(this.pages[name]);
    this.asked.push(name);
    const answer = await fetch(new URL(name, base));
    const body = Buffer.from(await answer.arrayBuffer());
    // Many a host knows nothing of wasm.
    const type = name.endsWith(".wasm") ? "text/plain" : answer.headers.get("content-type");
    response.writeHead(answer.status, type ? { "Content-Type": type } : {});
    response.end(this.changed[name] ? this.changed[name](body.toString()) : body);
  }

  async close() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
