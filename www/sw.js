// Keeps the page working without a network after the first visit.
//
// What a visit needs is put aside when this script is installed, all of one build; the network comes first, and what was put aside answers when there is
// none. So nobody sees an old page while a host can be reached, and what is seen without one fits together. What is fetched on demand (the GPU model,
// the model that writes) is kept once it came. `cargo xtask build` fills in the build's name and its files.
const BUILD = "@BUILD@";
const FIRST = ["@FIRST@"];
const LATER = ["@LATER@"];

const NAME = `servelab ${registration.scope} `;
const cache = () => caches.open(NAME + BUILD);
const place = (name) => new URL(name, registration.scope).href;
/** Queries and fragments choose nothing here: hashes in them only keep caches of browsers apart. */
const plain = (address) => address.replace(/[?#].*/, "");
const first = new Set(FIRST.map(place));
const later = new Set(LATER.map(place));

addEventListener("install", (event) => {
  const fill = async () => (await cache()).addAll([...first].map((address) => new Request(address, { cache: "no-cache" })));
  event.waitUntil(fill().then(() => skipWaiting()));
});

addEventListener("activate", (event) => {
  const tidy = async () => {
    const old = (await caches.keys()).filter((name) => name.startsWith(NAME) && name !== NAME + BUILD);
    await Promise.all(old.map((name) => caches.delete(name)));
    await clients.claim();
  };
  event.waitUntil(tidy());
});

addEventListener("fetch", (event) => {
  const address = plain(event.request.url);
  if (event.request.method !== "GET" || !(first.has(address) || later.has(address))) return;
  event.respondWith(answer(event, address));
});

async function answer(event, address) {
  try {
    const response = await fetch(event.request);
    if (response.ok && later.has(address)) {
      const copy = response.clone();
      event.waitUntil(cache().then((cache) => cache.put(address, copy)).catch(() => {}));
    }
    return response;
  } catch (error) {
    const kept = await (await cache()).match(address);
    // Made anew, it has no address of its own: a worker reads its name in the one that was asked for.
    if (kept) return new Response(kept.body, { status: kept.status, headers: kept.headers });
    throw error;
  }
}
