// Runs functions of the page's modules in Node, for `test_web.py`:
//
//     node web.mjs SEARCH SPLIT WORDS < INPUT
//
// The modules are files of JavaScript; standard input and output are JSON.

import { readFileSync } from "node:fs";

const [search, split, words] = await Promise.all(process.argv.slice(2).map((file) => import(file)));
const { rules, texts, characters } = JSON.parse(readFileSync(0, "utf8"));

const scored = rules.map(({ settings, logits, ids, limit }) => {
  const changed = Float32Array.from(logits);
  search.logitRules(settings)(changed, ids, limit);
  return [...changed].map((value) => (value < -1e30 ? null : value));
});
const pieces = texts.map((text) => split.split(text, (part) => part.length <= characters).map((span) => text.slice(...span)));
const found = texts.map((text) => words.wordsOf(text).map((span) => text.slice(...span)));
console.log(JSON.stringify({ scored, pieces, found }));
