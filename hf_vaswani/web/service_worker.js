// Keeps the page's files, so that the page works offline, and blocks all requests to other hosts.
//
// The files are kept under a digest of all their contents, and each file is checked by its own digest: an update takes
// effect as a whole, once it has arrived completely.

const DIGEST = "{{digest}}";
const FILES = {{files}}; // path → its digest
const SCOPE = self.registration.scope;
const PREFIX = `hf-vaswani ${SCOPE} `;
const CACHE = PREFIX + DIGEST;

self.addEventListener("install", (event) => event.waitUntil(keepFiles()));
self.addEventListener("activate", (event) => event.waitUntil(removeOthers().then(() => self.clients.claim())));
self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (url.origin !== self.location.origin) event.respondWith(Response.error());
  else if (event.request.method === "GET" && url.href.startsWith(SCOPE)) event.respondWith(kept(event.request, url));
});

async function keepFiles() {
  const cache = await caches.open(CACHE);
  await Promise.all(
    Object.entries(FILES).map(async ([path, integrity]) => {
      const address = new URL(path, SCOPE);
      if (await cache.match(address)) return;
      const response = await fetch(address, { integrity, cache: "no-cache" });
      if (!response.ok) throw new Error(`${path}: ${response.status}`);
      await cache.put(address, response);
    }),
  );
}

async function removeOthers() {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name.startsWith(PREFIX) && name !== CACHE).map((name) => caches.delete(name)));
}

async function kept(request, url) {
  const path = url.pathname === new URL(SCOPE).pathname ? new URL("index.html", SCOPE) : url;
  const cache = await caches.open(CACHE);
  return (await cache.match(path, { ignoreSearch: true })) ?? fetch(request);
}
