// The page with the model in the browser: starts the worker that translates, and keeps the page for offline use.

import { nameOf, receive, send, start } from "./page.js";

const DELAY = 120;
const element = (id) => document.getElementById(id);
// Only the page of a model for several target languages has these.
const from = element("source-language");
const to = element("target-language");
let isReady = false;
let worker = startWorker();
if (from) offerLanguages(JSON.parse(from.dataset.pairs));
start((request) => worker.postMessage({ ...request, mark: to ? `>>${to.value}<< ` : "" }), DELAY);
keepForOffline();

/** @param {[string, string][]} pairs what the model was trained to translate */
function offerLanguages(pairs) {
  const options = (codes) => [...new Set(codes)].map((code) => new Option(nameOf(code), code));
  const offerTargets = () => {
    const chosen = to.value;
    to.replaceChildren(...options(pairs.flatMap(([source, target]) => (source === from.value ? [target] : []))));
    to.value = chosen;
    if (to.selectedIndex < 0) to.selectedIndex = 0;
    element("source").lang = from.value.replaceAll("_", "-");
    element("translation").lang = to.value.replaceAll("_", "-");
  };
  from.replaceChildren(...options(pairs.map(([source]) => source)));
  from.addEventListener("change", offerTargets);
  to.addEventListener("change", offerTargets);
  for (const menu of [from, to]) menu.addEventListener("change", send);
  offerTargets();
}

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
    if (element("source").value) send();
  });
  return started;
}

async function keepForOffline() {
  if (!navigator.serviceWorker) return;
  try {
    await navigator.serviceWorker.register(new URL("service_worker.js", import.meta.url));
    await navigator.serviceWorker.ready;
    document.body.classList.add("offline");
    element("offline").hidden = false;
  } catch {
    // The page still translates without it.
  }
}
