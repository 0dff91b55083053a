// Runs a program of wasm32 tests in Firefox, without a driver of its own for it: node tests/e2e/firefox-wasm.mjs COMMAND ARGUMENTS
// The command is `cargo test` for wasm32. Told that nobody drives a browser (NO_HEADLESS), wasm-bindgen's runner serves the tests to whoever comes, and their
// page says how they went. Ends well when all of them passed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { launch, missing, program } from "./firefox.mjs";

/** As long as the tests may take in another browser, ms. */
const LIMIT_MS = 900_000;

if (!program) {
  console.error(missing);
  process.exit(1);
}
const [command, ...args] = process.argv.slice(2);
const env = { ...process.env, NO_HEADLESS: "1", WASM_BINDGEN_TEST_ADDRESS: `127.0.0.1:${await freePort()}` };
// A group of its own, because the runner, a child of cargo's, never ends by itself.
const cargo = spawn(command, args, { env, detached: true, stdio: ["ignore", "pipe", "inherit"] });
const ended = once(cargo, "exit").then(([code]) => code ?? 1);
const stop = () => {
  try {
    process.kill(-cargo.pid);
  } catch {
    // It is gone already.
  }
};
try {
  const address = await Promise.race([served(), ended.then((code) => Promise.reject(new Error(`the tests ended with ${code} before they were served`)))]);
  process.exitCode = (await passed(address)) ? 0 : 1;
} finally {
  stop();
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

/** Where the tests are to be had. */
async function served() {
  for await (const line of createInterface({ input: cargo.stdout })) {
    const [address] = /http:\/\/\S+/.exec(line) ?? [];
    if (address) return address;
    console.log(line);
  }
  throw new Error("the tests were not served");
}

async function passed(address) {
  const browser = await launch();
  try {
    const page = await browser.newPage();
    page.on("pageerror", (error) => console.log(error.stack ?? error.message));
    await page.goto(address);
    const over = () => /test result: .*/.test(document.querySelector("#output")?.textContent ?? "");
    await page.waitForFunction(over, { timeout: LIMIT_MS, polling: 200 }).catch((error) => console.log(error.message));
    const said = await page.$eval("#output", (output) => output.textContent);
    console.log(said);
    return /test result: ok\. /.test(said);
  } finally {
    await browser.close();
  }
}
