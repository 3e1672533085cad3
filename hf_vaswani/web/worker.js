// The page's worker: it loads the model and translates, so that the page stays responsive while somebody types.
//
// transformers.js would load twice as much code, run each batch until its last sentence is done, and return no
// attention weights. So the worker runs the graphs itself, with transformers.js's tokenizer, ONNX Runtime for
// WebAssembly, and the search in search.js.
//
// What it receives and sends is described in page.js.

import * as ort from "./runtime/onnxruntime.js";
import { Tokenizer } from "./runtime/tokenizers.js";
import { Search } from "./search.js";
import { split } from "./split.js";
import { Words } from "./words.js";

const ROWS = 16; // sentences in a batch
const WINDOW = 4 * ROWS; // sentences that are sorted by length together
const LONGEST = 128; // maximum tokens in a piece: models are trained on sentences
const REMEMBERED = 20000; // translations to cache
const NOTHING = { text: "", source: [], target: [], links: [] }; // the translation of a text with nothing visible

const MARK = /^>>\S+<<$/u; // a token that names a target language
const translated = new Map(); // a piece with the mark of its target language → its translation
let latest = 0; // id of the latest text
let working;

class Outdated extends Error {}

const model = load().catch((error) => {
  postMessage({ type: "error", message: `The model cannot be loaded: ${error.message ?? error}` });
  return null;
});

self.addEventListener("message", ({ data: { id, text, mark = "" } }) => {
  latest = id;
  const before = working;
  working = (async () => {
    await before;
    const loaded = await model;
    if (loaded && id === latest) await translate(loaded, id, text, mark);
  })().catch((error) => {
    if (!(error instanceof Outdated)) postMessage({ type: "error", message: `${error.message ?? error}` });
  });
});

async function load() {
  const page = JSON.parse(new TextDecoder().decode(await download("page.json")));
  const files = Object.entries(page.files);
  const total = files.reduce((sum, [, size]) => sum + size, 0);
  let loaded = 0;
  const report = (bytes) => postMessage({ type: "loading", loaded: (loaded += bytes), total });
  report(0);
  const contents = Object.fromEntries(
    await Promise.all(files.map(async ([name]) => [name, await download(name, report)])),
  );
  const json = (name) => JSON.parse(new TextDecoder().decode(contents[`model/${name}`]));
  ort.env.wasm.wasmPaths = { mjs: address("runtime/onnxruntime-wasm.js"), wasm: address("runtime/onnxruntime.wasm") };
  ort.env.wasm.wasmBinary = contents["runtime/onnxruntime.wasm"];
  ort.env.wasm.numThreads = 1; // more threads need headers that few hosts send, and slow down small models
  ort.env.logLevel = "error";
  const sessions = [];
  // One after the other, since the first one starts the runtime.
  for (const name of page.graphs) {
    sessions.push(await ort.InferenceSession.create(contents[name], { executionProviders: ["wasm"] }));
  }
  const config = json("config.json");
  const settings = json("generation_config.json");
  const tokenizer = new Tokenizer(json("tokenizer.json"), json("tokenizer_config.json"));
  const orEnd = (ids) => (ids.length ? ids : [settings.eos_token_id].flat().slice(0, 1));
  const special = ["pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"];
  const marks = json("tokenizer.json").added_tokens.flatMap(({ content, id }) => (MARK.test(content) ? [id] : []));
  const result = {
    tokenizer,
    // If the tokenizer returns no tokens for a text, treat the text as empty.
    encode: (text) => orEnd(text ? tokenizer.encode(text).ids : []),
    search: new Search(...sessions, config, settings),
    words: new Words(tokenizer, [...special.flatMap((name) => settings[name] ?? config[name] ?? []), ...marks]),
    blank: new RegExp(page.blank, "u"),
    longest: Math.min(config.max_position_embeddings ?? LONGEST, LONGEST),
  };
  await result.search.run([result.encode("")], async () => {}); // warm up: the first run is slower
  postMessage({ type: "ready" });
  return result;
}

/**
 * Translates a text piece by piece, roughly in order, and posts the translations as they are done.
 * @param {string} mark what each piece begins with to name its target language, if the model has several
 */
async function translate(loaded, id, text, mark) {
  const started = performance.now();
  const { tokenizer, longest } = loaded;
  const fits = (part) => {
    if (part.length * 4 < longest) return true; // even one token per byte would fit
    return part.length <= 8 * longest && tokenizer.encode(mark + part).ids.length <= longest;
  };
  const pieces = split(text, fits);
  const texts = pieces.map(([start, end]) => text.slice(start, end));
  const places = new Map(); // text → the indices of its pieces
  texts.forEach((part, i) => places.set(part, [...(places.get(part) ?? []), i]));
  for (const part of places.keys()) if (loaded.blank.test(part)) remember(mark + part, NOTHING);
  const known = texts.flatMap((part, i) => (translated.has(mark + part) ? [[i, translated.get(mark + part)]] : []));
  postMessage({ type: "pieces", id, pieces, translations: known });
  const todo = [...places.keys()].filter((part) => !translated.has(mark + part));
  let tokens = 0;
  const pause = async () => {
    await nextTask();
    if (id !== latest) throw new Outdated();
  };
  for (const batch of batches(todo.map((part) => [part, loaded.encode(mark + part)]))) {
    const found = await loaded.search.run(batch.map(([, ids]) => ids), pause);
    const translations = found.flatMap(({ ids, links }, i) => {
      const [source, sourceIds] = batch[i];
      tokens += ids.length;
      const target = ids.length ? tokenizer.decode(ids, { skip_special_tokens: true }).trim() : "";
      const result = { text: target, ...loaded.words.align(source, sourceIds, target, ids, links) };
      remember(mark + source, result);
      return places.get(source).map((place) => [place, result]);
    });
    postMessage({ type: "translations", id, translations });
  }
  postMessage({ type: "done", id, sentences: todo.length, tokens, seconds: (performance.now() - started) / 1000 });
}

/** Yields batches in the order of the text; only within a window are sentences of similar length grouped together. */
function* batches(sentences) {
  // The first batch keeps the order of the text, since somebody is waiting for its beginning.
  if (sentences.length) yield sentences.slice(0, ROWS);
  for (let start = ROWS; start < sentences.length; start += WINDOW) {
    const window = sentences.slice(start, start + WINDOW).sort((a, b) => a[1].length - b[1].length);
    for (let i = 0; i < window.length; i += ROWS) yield window.slice(i, i + ROWS);
  }
}

function remember(source, result) {
  if (translated.size >= REMEMBERED) translated.delete(translated.keys().next().value);
  translated.set(source, result);
}

/** Lets the worker receive messages that have arrived in the meantime; a timer would wait for milliseconds. */
function nextTask() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

function address(name) {
  return new URL(name, import.meta.url).href;
}

/** Downloads a file of the page; `report` is called with the number of bytes in each part that arrives. */
async function download(name, report = () => {}) {
  const response = await fetch(address(name));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  const parts = [];
  let size = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    size += part.value.length;
    report(part.value.length);
  }
  const content = new Uint8Array(size);
  let place = 0;
  for (const part of parts) {
    content.set(part, place);
    place += part.length;
  }
  return content;
}
