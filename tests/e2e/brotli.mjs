// Prints the size of each file after brotli, one a line.
// node brotli.mjs MEMORY FILE...: sizes are remembered in the folder MEMORY by content, since the GPU model's 20 MB
// take seconds to compress and rarely change.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants } from "node:zlib";

// Above this the best quality takes about a minute and saves a few per cent.
const LARGE = 4 << 20;

const [memory, ...files] = process.argv.slice(2);
mkdirSync(memory, { recursive: true });

async function size(file) {
  const content = readFileSync(file);
  const quality = content.length > LARGE ? 9 : 11;
  const note = join(memory, `${createHash("sha256").update(content).digest("hex")}-${quality}`);
  try {
    return Number(readFileSync(note, "utf8"));
  } catch {
    // Not measured yet.
  }
  const params = { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  const { length } = await promisify(brotliCompress)(content, { params });
  writeFileSync(note, String(length));
  return length;
}

for (const length of await Promise.all(files.map(size))) console.log(length);
