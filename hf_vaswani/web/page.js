// The page: sends what is typed to what translates, shows the translations, and marks words that correspond.
//
// What translates is started by browser.js or server.js. It gets {id, text}, and answers with `receive` and messages of
// these types: "loading" with byte counts, "ready", "pieces" with where the parts of the text are, "translations" of
// some of them, "done", and "error".
//
// Text is only ever inserted as text, never as HTML.

import { Marks } from "./marks.js";
import { Translation } from "./translation.js";

const element = (id) => document.getElementById(id);
const source = element("source");
const state = element("state");
const progress = element("progress");
const marks = new Marks(source, element("mirror"), element("link"));
export const translation = new Translation(element("translation"), marks);

document.documentElement.classList.add("started");
nameLanguages();

let id = 0;
let timer;
let translate;

/**
 * @param {(request: {id: number, text: string}) => void} given translates a text, unless a later one follows
 * @param {number} delay milliseconds without typing after which a text is translated
 */
export function start(given, delay) {
  translate = given;
  source.addEventListener("input", () => {
    translation.showNothing();
    marks.setText(source.value);
    clearTimeout(timer);
    timer = setTimeout(send, delay);
  });
  // A browser may keep what was typed when the page is reloaded.
  marks.setText(source.value);
  if (source.value) send();
}

source.addEventListener("keydown", ({ key, ctrlKey, metaKey }) => {
  if (key === "Enter" && (ctrlKey || metaKey)) send();
});
element("clear").addEventListener("click", () => {
  source.value = "";
  marks.setText("");
  send();
  translation.setPieces([]);
  source.focus();
});
element("copy").addEventListener("click", async () => {
  const isCopied = await copy(translation.text).catch(() => false);
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

/** Shows how a word was translated, unless the translation on display is that of an earlier text. */
function showSource(place) {
  if (translation.source === source.value) translation.showSource(place);
}

/** Translates the text again. */
export function send() {
  clearTimeout(timer);
  id += 1;
  translation.source = source.value;
  document.body.classList.add("busy");
  translate({ id, text: source.value });
}

/** Shows what a message says. */
export function receive(data) {
  if (data.type === "loading") {
    progress.value = data.loaded / data.total;
    const isLoaded = data.loaded >= data.total;
    const size = `${megabytes(data.loaded)} of ${megabytes(data.total)} MB`;
    state.textContent = isLoaded ? "Starting the model…" : `Loading the model: ${size}.`;
  } else if (data.type === "ready") {
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

function nameLanguages() {
  for (const label of document.querySelectorAll("[data-language]")) {
    const code = label.dataset.language;
    if (code) label.textContent = nameOf(code);
  }
}

/** The English name of a language; its code if browsers do not know such codes. */
export function nameOf(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code.replaceAll("_", "-"));
  } catch {
    return code;
  }
}

/** Copies a text; pages that are not served by https have no `navigator.clipboard`. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true);
  const set = (event) => {
    event.preventDefault();
    event.clipboardData.setData("text/plain", text);
  };
  document.addEventListener("copy", set, { once: true });
  return document.execCommand("copy");
}

function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1);
}
