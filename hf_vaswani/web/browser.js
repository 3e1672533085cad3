// The page with the model in the browser: starts the worker that translates, and keeps the page for offline use.

import { receive, send, start } from "./page.js";

const DELAY = 120;
let isReady = false;
let worker = startWorker();
start((request) => worker.postMessage(request), DELAY);
keepForOffline();

/**
 * A worker made from a blob obeys this page's Content-Security-Policy; one made from a file does not. The latter is for
 * browsers that do not let the former load its modules.
 */
function startWorker(isPlain = false) {
  const address = new URL("worker.js", import.meta.url).href;
  const blob = new Blob([`import ${JSON.stringify(address)};`], { type: "text/javascript" });
  const started = new Worker(isPlain ? address : URL.createObjectURL(blob), { type: "module" });
  started.addEventListener("message", ({ data }) => {
    isReady ||= data.type === "ready";
    receive(data);
  });
  started.addEventListener("error", (event) => {
    event.preventDefault();
    if (isReady || isPlain) return receive({ type: "error", message: event.message || "The page cannot start." });
    worker = startWorker(true);
    if (document.getElementById("source").value) send();
  });
  return started;
}

async function keepForOffline() {
  if (!navigator.serviceWorker) return;
  try {
    await navigator.serviceWorker.register(new URL("service_worker.js", import.meta.url));
    await navigator.serviceWorker.ready;
    document.body.classList.add("offline");
    document.getElementById("offline").hidden = false;
  } catch {
    // The page still translates without it.
  }
}
