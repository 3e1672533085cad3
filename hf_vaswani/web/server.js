// The page with a server: translations by its API, its languages, documents, and glossaries.
//
// All addresses are relative, since a proxy may serve the page elsewhere.

import { receive, send, start, translation } from "./page.js";

const DELAY = 400;
const AUTO = "auto";
const TYPED = "typed"; // a glossary that is typed into the page
const SHORT = 200; // characters of a text for which alternatives are shown
const ALTERNATIVES = 3;
const ALIGNED = 5000; // characters of a text whose words are linked
const NOTHING = { source: [], target: [], links: [] }; // no linked words

const element = (id) => document.getElementById(id);
const source = element("source");
const view = element("translation");
const from = element("source-language");
const to = element("target-language");
const key = element("key");
const glossary = element("glossary");
const terms = element("terms");
const storage = openStorage();

let settings;
let languages = [];
let loading; // a promise that the languages are known
let glossaries = [];
let shown; // the text whose translation was shown last, its parts, and the signal that it is outdated
let request = new AbortController();
let upload = new AbortController();
let timer;

key.value = storage.apiKey ?? "";
start(translate, DELAY);
source.addEventListener("input", () => request.abort());
from.addEventListener("change", () => {
  if (from.value === AUTO && glossary.value !== TYPED) glossary.value = ""; // which is for one language
  fillTargets();
  send();
});
to.addEventListener("change", () => {
  fillGlossaries();
  send();
});
key.addEventListener("change", () => {
  storage.apiKey = key.value;
  loadGlossaries().then(send, showError);
});
glossary.addEventListener("change", () => {
  terms.hidden = glossary.value !== TYPED;
  if (from.value === AUTO && glossary.value) from.value = sourceOf(glossary.value) ?? AUTO;
  send();
});
terms.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(send, DELAY);
});
element("swap").addEventListener("click", swap);
element("file").addEventListener("click", ({ target }) => (target.value = "")); // the same one may be chosen again
element("file").addEventListener("change", translateFile);
for (const type of ["pointermove", "pointerdown", "focus"]) view.addEventListener(type, linkWords);
for (const type of ["pointermove", "pointerdown", "keyup"]) source.addEventListener(type, linkWords);
prepare().catch(showError);

/** Loads what the page needs to know of the server, unless it is known. */
function prepare() {
  loading ??= load().catch((error) => {
    loading = null;
    throw error;
  });
  return loading;
}

async function load() {
  [settings, languages] = await Promise.all([call("frontend/settings"), call("languages")]);
  element("account").hidden = !settings.keyRequired;
  element("file").accept = settings.supportedFilesFormat.join(",");
  element("document").textContent = settings.supportedFilesFormat.join(" ");
  const sources = languages.filter(({ targets }) => targets.length);
  from.replaceChildren(new Option("Any language", AUTO), ...sources.map(option));
  from.value = sources.length === 1 ? sources[0].code : AUTO;
  fillTargets(settings.language.target.code);
  receive({ type: "ready" });
  loadGlossaries().catch(showError);
}

async function loadGlossaries() {
  const isAllowed = !settings?.keyRequired || key.value;
  glossaries = isAllowed ? (await call("v3/glossaries")).glossaries : [];
  fillGlossaries();
}

function fillTargets(chosen = to.value) {
  const codes = new Set(languages.flatMap(({ code, targets }) => ([AUTO, code].includes(from.value) ? targets : [])));
  to.replaceChildren(...languages.filter(({ code }) => codes.has(code)).map(option));
  if (codes.has(chosen)) to.value = chosen;
  fillGlossaries();
}

/** Offers the glossaries that have terms for the chosen languages. */
function fillGlossaries() {
  const chosen = glossary.value;
  const own = glossaries.filter(({ glossary_id }) => sourceOf(glossary_id));
  glossary.replaceChildren(
    new Option("None", ""),
    ...own.map(({ glossary_id, name }) => new Option(name, glossary_id)),
    new Option("Terms typed here", TYPED),
  );
  glossary.value = chosen;
  if (glossary.selectedIndex < 0) glossary.value = "";
  terms.hidden = glossary.value !== TYPED;
}

/** The chosen source language, or else one, for which a glossary has terms. */
function sourceOf(number) {
  const base = (code) => code.split("-")[0];
  const own = glossaries.find(({ glossary_id }) => glossary_id === number)?.dictionaries ?? [];
  const sources = own.filter(({ target_lang }) => target_lang === base(to.value)).map(({ source_lang }) => source_lang);
  const codes = languages.filter(({ targets }) => targets.includes(to.value)).map(({ code }) => code);
  return codes.find((code) => [AUTO, code].includes(from.value) && sources.includes(base(code)));
}

/** What a text and a document are translated with. */
function fields() {
  const lines = terms.value.split("\n").filter((line) => line.trim());
  const typed = { glossary: lines.map((line) => line.replace(/\s*=\s*/, "\t")).join("\n") };
  const chosen = glossary.value === TYPED ? typed : { glossary_id: glossary.value };
  return { source: from.value, target: to.value, ...chosen };
}

async function translate({ id, text }) {
  request.abort();
  const { signal } = (request = new AbortController());
  const lines = linesOf(text);
  const pieces = lines.map(({ span }) => span);
  const isShort = lines.length === 1 && text.length <= SHORT;
  receive({ type: "pieces", id, pieces });
  try {
    await prepare();
    const alternatives = isShort ? Math.min(ALTERNATIVES, settings.alternativesLimit) : 0;
    const answer = lines.length ? await call("translate", { ...fields(), q: text, alternatives }, signal) : {};
    if (signal.aborted) return;
    const translated = (answer.translatedText ?? "").split("\n").map((line) => line.trim());
    const results = lines.map(({ number }) => ({ text: translated[number], ...NOTHING }));
    showNotes(answer);
    receive({ type: "translations", id, translations: [...results.entries()] });
    receive({ type: "done", id });
    receive({ type: "ready" });
    shown = { id, text, pieces, results, signal };
  } catch (error) {
    if (signal.aborted) return;
    receive({ type: "pieces", id, pieces: [] });
    showNotes({});
    showError(error);
  }
}

/** Shows what else the server says of a text. */
function showNotes({ detectedLanguage, via, warnings, alternatives = [] }) {
  const detected = detectedLanguage?.language;
  const name = nameOf(detected);
  if (from.options.length) from.options[0].textContent = name ? `${name} (detected)` : "Any language";
  source.lang = detected || (from.value === AUTO ? "" : from.value);
  view.lang = to.value;
  element("swap").hidden = !languages.find(({ code }) => code === to.value)?.targets.includes(source.lang);
  element("warnings").replaceChildren(...notesOf(via, warnings));
  element("alternatives").replaceChildren(...alternatives.map(item));
  element("alternatives").lang = to.value;
}

/** What to know of a translation, as items of a list: its warnings, and the third language that it went over. */
function notesOf(via, warnings = []) {
  const over = via ? [`Translated over ${nameOf(via)}`] : [];
  return [...warnings, ...over].map((note) => item(`${note}.`));
}

function nameOf(language) {
  return languages.find(({ code }) => code === language)?.name;
}

/** Links the words of the translation on display with those of the text, the first time that somebody wants them. */
async function linkWords() {
  if (!isTranslated() || shown.isLinked || shown.text.length > ALIGNED) return;
  shown.isLinked = true;
  const { id, text, pieces, results, signal } = shown;
  const q = pieces.map((piece) => text.slice(...piece));
  const translations = results.map((result) => result.text);
  const pair = { source: source.lang, target: view.lang };
  try {
    const { alignments } = await call("align", { ...pair, q, translation: translations }, signal);
    const linked = alignments.map((words, i) => [i, {
      text: translations[i],
      source: inUnits(q[i], words.source),
      target: inUnits(translations[i], words.target),
      links: words.links.map(([s, t]) => [t, s]),
    }]);
    receive({ type: "translations", id, translations: linked });
  } catch {
    // The translation is there without links.
  }
}

/** Whether the translation on display is that of the text. */
function isTranslated() {
  return shown && shown.text === source.value && !shown.signal.aborted;
}

/** Swaps the languages, and puts the translation in place of the text. */
function swap() {
  const before = source.lang;
  from.value = to.value;
  fillTargets(before);
  if (isTranslated()) source.value = translation.text;
  source.dispatchEvent(new Event("input"));
  send();
}

async function translateFile({ target: { files: [file] } }) {
  if (!file) return;
  upload.abort();
  const { signal } = (upload = new AbortController());
  const result = element("document");
  const bar = document.createElement("progress");
  bar.ariaLabel = "Translating the document";
  result.replaceChildren(paragraph(`Translating ${file.name}…`), bar);
  try {
    await prepare();
    const form = new FormData();
    for (const [name, value] of Object.entries({ ...fields(), file })) form.append(name, value);
    const { translatedFileUrl, via, warnings } = await call("translate_file", form, signal);
    const link = document.createElement("a");
    // By the name alone: the server does not know where a proxy serves it.
    link.href = `download_file/${translatedFileUrl.split("/download_file/")[1]}`;
    link.textContent = `Download the translation of ${file.name}`;
    const notes = document.createElement("ul");
    notes.append(...notesOf(via, warnings));
    result.replaceChildren(link, notes);
  } catch (error) {
    if (!signal.aborted) result.replaceChildren(paragraph(`${file.name}: ${error.message}`));
  }
}

/** Calls the server, with the fields of `body` if there are any; errors say in plain words what is wrong. */
async function call(path, body, signal) {
  const headers = {};
  // As bytes of UTF-8: a header has no other characters.
  if (key.value) headers.Authorization = `Bearer ${String.fromCharCode(...new TextEncoder().encode(key.value))}`;
  if (body && !(body instanceof FormData)) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(body);
  }
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body, signal }).catch(() => {
    throw new Error("The server cannot be reached. Your text is still here; try again in a moment.");
  });
  const content = await answer.json().catch(() => ({}));
  if (answer.ok) return content;
  const message = content.error ?? content.message ?? `The server answered ${answer.status} ${answer.statusText}`;
  throw new Error(`${message.replace(/^Invalid (request|file): /, "").replace(/\.$/, "")}.`);
}

function showError({ message }) {
  receive({ type: "error", message });
}

/** The lines of a text that are not blank: their numbers, and where they are. */
function linesOf(text) {
  let end = -1;
  return text.split("\n").flatMap((line, number) => {
    const first = end + 1;
    end = first + line.length;
    const begin = first + line.length - line.trimStart().length;
    return line.trim() ? [{ number, span: [begin, begin + line.trim().length] }] : [];
  });
}

/** Places in a text as JavaScript counts them, from places that count whole characters. */
function inUnits(text, spans) {
  const places = [0];
  for (const character of text) places.push(places.at(-1) + character.length);
  return spans.map(([start, end]) => [places[start], places[end]]);
}

function option({ code, name }) {
  return new Option(name, code);
}

function item(text) {
  return Object.assign(document.createElement("li"), { dir: "auto", textContent: text });
}

function paragraph(text) {
  return Object.assign(document.createElement("p"), { dir: "auto", textContent: text });
}

/** Where the key is kept until the window is closed; a browser may forbid it. */
function openStorage() {
  try {
    return sessionStorage;
  } catch {
    return {};
  }
}
