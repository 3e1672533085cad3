// Greedy search with the encoder and decoder graphs, for several sentences at once.
//
// Keys and values of the tokens so far are cached, the encoder's output is projected only in the first step, and a
// finished sentence leaves the batch. The settings are those of generation_config.json, with the same meaning as in
// transformers.

import * as ort from "./runtime/onnxruntime.js";

export class Search {
  /**
   * @param {object} encoder, decoder: ONNX Runtime sessions
   * @param {object} config, settings: the model's config.json and generation_config.json
   */
  constructor(encoder, decoder, config, settings) {
    Object.assign(this, { encoder, decoder, config, settings });
    this.ends = [settings.eos_token_id].flat();
    this.caches = { decoder: cacheNames(config, "decoder"), encoder: cacheNames(config, "encoder") };
    this.apply = logitRules(settings);
  }

  /**
   * @param {number[][]} sources token ids of each sentence
   * @param {() => Promise<void>} pause awaited before each step; if it throws, the search ends
   * @returns {Promise<{ids: number[], links: Float32Array[]}[]>} for each sentence, the ids of its translation, without
   *   start and end tokens, and for each id, how much it attends to each source token
   */
  async run(sources, pause) {
    const { config, settings, caches } = this;
    const width = Math.max(...sources.map((ids) => ids.length));
    let inputs = {
      encoder_attention_mask: integers(sources.flatMap((ids) => padded(ids.map(() => 1), width, 0)), width),
    };
    const padding = settings.pad_token_id ?? 0;
    const { last_hidden_state } = await this.encoder.run({
      input_ids: integers(sources.flatMap((ids) => padded(ids, width, padding)), width),
      attention_mask: inputs.encoder_attention_mask,
    });
    inputs.encoder_hidden_states = last_hidden_state;
    const share = config.d_model / config.decoder_attention_heads;
    const widths = { key: config.d_k ?? share, value: config.d_v ?? share };
    for (const name of [...caches.decoder, ...caches.encoder]) {
      const shape = [sources.length, config.decoder_attention_heads, 0, widths[name.split(".").at(-1)]];
      inputs[`past_key_values.${name}`] = new ort.Tensor("float32", new Float32Array(0), shape);
    }
    const hypotheses = sources.map((ids) => ({
      ids: [settings.decoder_start_token_id],
      links: [],
      sourceLength: ids.length,
      limit: 1 + this.longest(ids.length),
    }));
    let open = hypotheses;
    for (let isFirst = true; open.length; isFirst = false) {
      await pause();
      inputs.input_ids = integers(open.map(({ ids }) => ids.at(-1)), 1);
      const names = isFirst ? [...caches.decoder, ...caches.encoder] : caches.decoder;
      const outputs = await this.decoder.run(inputs, ["logits", "alignment", ...names.map((name) => `present.${name}`)]);
      for (const name of names) inputs[`past_key_values.${name}`] = outputs[`present.${name}`];
      const kept = [];
      open.forEach((hypothesis, row) => {
        const logits = rowOf(outputs.logits, row);
        this.apply(logits, hypothesis.ids, hypothesis.limit);
        const token = argmax(logits);
        hypothesis.ids.push(token);
        if (this.ends.includes(token)) return;
        hypothesis.links.push(rowOf(outputs.alignment, row).slice(0, hypothesis.sourceLength));
        if (hypothesis.ids.length < hypothesis.limit) kept.push(row);
      });
      if (kept.length < open.length) {
        open = kept.map((row) => open[row]);
        if (open.length) inputs = mapValues(inputs, (tensor) => rowsOf(tensor, kept));
      }
    }
    return hypotheses.map(({ ids, links }) => ({ ids: ids.slice(1, 1 + links.length), links }));
  }

  /** The maximum number of tokens in the translation of a source. */
  longest(sourceLength) {
    const { max_new_tokens = Infinity, max_length_offset = Infinity } = this.settings;
    const positions = this.config.max_position_embeddings ?? Infinity;
    return Math.min(max_new_tokens, sourceLength + max_length_offset, positions - 1);
  }
}

/**
 * Makes a function that applies the settings to logits, in the same order as transformers.
 * @returns {(logits: Float32Array, ids: number[], limit: number) => void} changes the logits in place; ids begin with
 *   the decoder's start token, and limit is their maximum number
 */
export function logitRules(settings) {
  const ends = [settings.eos_token_id].flat();
  const rules = [];
  const { repetition_penalty: penalty, no_repeat_ngram_size: size, min_new_tokens: least } = settings;
  if (penalty && penalty !== 1) {
    rules.push((logits, ids) => {
      for (const id of new Set(ids)) logits[id] = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
    });
  }
  if (size > 0) rules.push((logits, ids) => exclude(logits, repeated(ids, size)));
  if (settings.bad_words_ids?.length) {
    const words = settings.bad_words_ids.filter((word) => !(word.length === 1 && ends.includes(word[0])));
    const isBehind = (ids, word) => word.slice(0, -1).every((id, i) => id === ids[ids.length - word.length + 1 + i]);
    rules.push((logits, ids) => exclude(logits, words.filter((word) => isBehind(ids, word)).map((word) => word.at(-1))));
  }
  if (least > 0) rules.push((logits, ids) => ids.length - 1 < least && exclude(logits, ends));
  if (settings.forced_bos_token_id != null) {
    rules.push((logits, ids) => ids.length === 1 && leave(logits, [settings.forced_bos_token_id]));
  }
  if (settings.forced_eos_token_id != null) {
    const forced = [settings.forced_eos_token_id].flat();
    rules.push((logits, ids, limit) => ids.length === limit - 1 && leave(logits, forced));
  }
  if (settings.suppress_tokens?.length) rules.push((logits) => exclude(logits, settings.suppress_tokens));
  if (settings.begin_suppress_tokens?.length) {
    const first = settings.forced_bos_token_id == null ? 1 : 2;
    rules.push((logits, ids) => ids.length === first && exclude(logits, settings.begin_suppress_tokens));
  }
  return (logits, ids, limit) => rules.forEach((rule) => rule(logits, ids, limit));
}

/** The tokens that would repeat an n-gram of the given size. */
function repeated(ids, size) {
  const last = size > 1 ? ids.slice(1 - size) : [];
  const found = [];
  for (let start = 0; start + size <= ids.length; start++) {
    if (last.every((id, i) => id === ids[start + i])) found.push(ids[start + size - 1]);
  }
  return ids.length + 1 < size ? [] : found;
}

function exclude(logits, ids) {
  for (const id of ids) logits[id] = -Infinity;
}

function leave(logits, ids) {
  const kept = ids.map((id) => logits[id]);
  logits.fill(-Infinity);
  ids.forEach((id, i) => (logits[id] = Math.max(kept[i], -Number.MAX_VALUE)));
}

function argmax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

function cacheNames(config, kind) {
  const layers = [...Array(config.decoder_layers).keys()];
  return layers.flatMap((layer) => ["key", "value"].map((part) => `${layer}.${kind}.${part}`));
}

function padded(values, width, padding) {
  return [...values, ...Array(width - values.length).fill(padding)];
}

function integers(values, width) {
  return new ort.Tensor("int64", BigInt64Array.from(values, BigInt), [values.length / width, width]);
}

/** The values in one row of a tensor; rows are the first dimension. */
function rowOf(tensor, row) {
  const size = tensor.data.length / tensor.dims[0];
  return tensor.data.subarray(row * size, (row + 1) * size);
}

/** Copies the given rows of a tensor. */
function rowsOf(tensor, rows) {
  const size = tensor.data.length / tensor.dims[0];
  const data = new tensor.data.constructor(rows.length * size);
  rows.forEach((row, i) => data.set(tensor.data.subarray(row * size, (row + 1) * size), i * size));
  return new ort.Tensor(tensor.type, data, [rows.length, ...tensor.dims.slice(1)]);
}

function mapValues(object, change) {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
}
