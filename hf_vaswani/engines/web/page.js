// The page: sends what is typed to the worker, shows its translations, and marks words that correspond.
//
// Text is only ever inserted as text, never as HTML.

import { Marks } from "./marks.js";
import { Translation } from "./translation.js";

const DELAY = 120; // milliseconds without typing after which a text is translated
const element = (id) => document.getElementById(id);
const source = element("source");
const state = element("state");
const progress = element("progress");
const marks = new Marks(source, element("mirror"), element("link"));
const translation = new Translation(element("translation"), marks);

document.documentElement.classList.add("started");
nameLanguages();

let worker = startWorker();
let isReady = false;
let id = 0;
let timer;

source.addEventListener("input", () => {
  translation.showNothing();
  marks.setText(source.value);
  clearTimeout(timer);
  timer = setTimeout(send, DELAY);
});
element("clear").addEventListener("click", () => {
  source.value = "";
  marks.setText("");
  send();
  translation.setPieces([]);
  source.focus();
});
element("copy").addEventListener("click", async () => {
  const isCopied = await navigator.clipboard.writeText(translation.text).then(() => true, () => false);
  state.textContent = isCopied ? "Copied." : "The browser does not allow copying.";
});
document.addEventListener("selectionchange", () => {
  if (document.activeElement === source) showSource(source.selectionStart);
});
source.addEventListener("pointermove", ({ clientX, clientY }) => {
  const position = document.caretPositionFromPoint?.(clientX, clientY);
  if (position?.offsetNode === source) showSource(position.offset);
});
source.addEventListener("pointerleave", () => translation.showNothing());

// A browser may keep what was typed when the page is reloaded.
marks.setText(source.value);
if (source.value) send();
keepForOffline();

/** Shows how a word was translated, unless the translation on display is that of an earlier text. */
function showSource(place) {
  if (translation.source === source.value) translation.showSource(place);
}

function send() {
  id += 1;
  translation.source = source.value;
  document.body.classList.add("busy");
  worker.postMessage({ id, text: source.value });
}

function receive({ data }) {
  if (data.type === "loading") {
    progress.value = data.loaded / data.total;
    const isLoaded = data.loaded >= data.total;
    const size = `${megabytes(data.loaded)} of ${megabytes(data.total)} MB`;
    state.textContent = isLoaded ? "Starting the model…" : `Loading the model: ${size}.`;
  } else if (data.type === "ready") {
    isReady = true;
    progress.hidden = true;
    state.textContent = "Ready.";
  } else if (data.type === "error") {
    progress.hidden = true;
    document.body.classList.remove("busy");
    state.textContent = data.message;
  } else if (data.id === id) {
    if (data.type === "pieces") translation.setPieces(data.pieces);
    if (data.translations) translation.add(data.translations);
    if (data.type === "done") done(data);
  }
}

function done({ sentences, tokens, seconds }) {
  document.body.classList.remove("busy");
  if (!sentences) return;
  const rate = (number) => Math.round(number / seconds).toLocaleString("en");
  const speed = element("speed");
  speed.textContent =
    `${sentences.toLocaleString("en")} ${sentences === 1 ? "sentence" : "sentences"} in ${seconds.toFixed(2)} s: ` +
    `${rate(sentences)} sentences and ${rate(tokens)} tokens a second`;
  Object.assign(speed.dataset, { sentences, tokens, seconds });
}

/**
 * A worker made from a blob obeys this page's Content-Security-Policy; one made from a file does not. The latter is for
 * browsers that do not let the former load its modules.
 */
function startWorker(isPlain = false) {
  const address = new URL("worker.js", import.meta.url).href;
  const blob = new Blob([`import ${JSON.stringify(address)};`], { type: "text/javascript" });
  const started = new Worker(isPlain ? address : URL.createObjectURL(blob), { type: "module" });
  started.addEventListener("message", receive);
  started.addEventListener("error", (event) => {
    event.preventDefault();
    if (isReady || isPlain) return receive({ data: { type: "error", message: event.message || "The page cannot start." } });
    worker = startWorker(true);
    if (source.value) send();
  });
  return started;
}

function nameLanguages() {
  for (const label of document.querySelectorAll("[data-language]")) {
    const code = label.dataset.language;
    if (code) label.textContent = new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  }
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

function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1);
}
