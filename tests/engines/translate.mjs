// Translates a list of texts in a file of JSON with transformers.js, for `test_transformers_js.py`:
//
//     node translate.mjs NODE_MODULES FOLDER FILE BATCH_SIZE MAX_NEW_TOKENS
//
// prints a line of JSON for each batch: the source's token ids, and the target's ids and texts.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, folder, file, batchSize, maxNewTokens] = process.argv.slice(2);
const entry = createRequire(path.join(modules, "here.js")).resolve("@huggingface/transformers");
const { AutoModelForSeq2SeqLM, AutoTokenizer, env, pipeline } = await import(pathToFileURL(entry));

env.allowRemoteModels = false;
env.localModelPath = path.dirname(path.resolve(folder));
const name = path.basename(folder);
const length = { max_new_tokens: Number(maxNewTokens) };
const options = { session_options: { intraOpNumThreads: 1 } };
const tokenizer = await AutoTokenizer.from_pretrained(name);
const model = await AutoModelForSeq2SeqLM.from_pretrained(name, options);
const translator = await pipeline("translation", name, options);

const all = JSON.parse(readFileSync(file, "utf8"));
for (let start = 0; start < all.length; start += Number(batchSize)) {
  const texts = all.slice(start, start + Number(batchSize));
  const inputs = tokenizer(texts, { padding: true });
  const outputs = await model.generate({ ...inputs, ...length });
  const results = await translator(texts, length);
  console.log(
    JSON.stringify({
      source: texts.map((text) => tokenizer.encode(text)),
      target: outputs.tolist().map((ids) => ids.map(Number)),
      texts: results.map((result) => result.translation_text),
    }),
  );
}
