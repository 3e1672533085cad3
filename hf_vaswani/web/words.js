// Finds which words of a translation come from which words of its source: the alignment's tokens, joined into words.

const MARKERS = /^##|▁|Ġ|<\/w>|@@$/gu;
const BYTE = /^<0x[0-9A-F]{2}>$/;
const segmenter = globalThis.Intl?.Segmenter && new Intl.Segmenter(undefined, { granularity: "word" });

export class Words {
  /** @param {object} tokenizer of @huggingface/tokenizers; special: ids that are not text */
  constructor(tokenizer, special) {
    this.tokenizer = tokenizer;
    this.special = new Set(special);
    this.counts = new Map(); // word → its number of tokens
  }

  /**
   * @param {string} source, target: a sentence and its translation
   * @param {number[]} sourceIds, targetIds: their token ids
   * @param {Float32Array[]} links: for each target token, how much it attends to each source token
   * @returns {{source: [number, number][], target: [number, number][], links: [number, number][]}} where the words of
   *   both texts begin and end, and pairs of a target word and a source word
   */
  align(source, sourceIds, target, targetIds, links) {
    const words = { source: wordsOf(source), target: wordsOf(target) };
    const isText = sourceIds.map((id) => !this.special.has(id));
    const texts = sourceIds.flatMap((_, i) => (isText[i] ? [i] : []));
    const spans = { source: this.sourceSpans(source, texts.map((i) => sourceIds[i])), target: this.targetSpans(targetIds, target) };
    const pairs = new Map();
    targetIds.forEach((id, row) => {
      if (this.special.has(id) || !texts.length) return;
      let best = 0;
      texts.forEach((place, i) => links[row][place] > links[row][texts[best]] && (best = i));
      for (const t of overlapping(words.target, spans.target[row])) {
        for (const s of overlapping(words.source, spans.source[best])) pairs.set(`${t} ${s}`, [t, s]);
      }
    });
    return { ...words, links: [...pairs.values()] };
  }

  /** Finds where the tokens of a translation are in its text: what each token adds to the decoded tokens before it. */
  targetSpans(ids, text) {
    let start = 0;
    return ids.map((_, i) => {
      const decoded = this.tokenizer.decode(ids.slice(0, i + 1), { skip_special_tokens: true });
      const span = [start, Math.max(commonLength(decoded, text), start)];
      start = span[1];
      return span;
    });
  }

  /**
   * Finds where the tokens of a source are in its text. Tokenizers may change a text, but none joins what whitespace
   * separates; within each such stretch, every token gets a part in proportion to its length.
   */
  sourceSpans(text, ids) {
    let units = [...text.matchAll(/\S+/gu)].map((match) => [match.index, match[0]]);
    let counts = units.map(([, word]) => this.count(word));
    if (counts.reduce((sum, count) => sum + count, 0) !== ids.length) [units, counts] = [[[0, text]], [ids.length]];
    let first = 0;
    return units.flatMap(([start, word], i) => {
      const lengths = ids.slice(first, (first += counts[i])).map((id) => this.lengthOf(id));
      const total = lengths.reduce((sum, length) => sum + length, 0) || 1;
      let done = 0;
      return lengths.map((length) => {
        const from = start + (done / total) * word.length;
        done += length;
        return [from, start + (done / total) * word.length];
      });
    });
  }

  count(word) {
    if (!this.counts.has(word)) {
      if (this.counts.size > 20000) this.counts.clear();
      this.counts.set(word, this.tokenizer.encode(word, { add_special_tokens: false }).ids.length);
    }
    return this.counts.get(word);
  }

  lengthOf(id) {
    const token = this.tokenizer.id_to_token(id) ?? "";
    return BYTE.test(token) ? 1 : token.replace(MARKERS, "").length;
  }
}

/** Finds where the words of a text begin and end; punctuation marks between them count as words. */
export function wordsOf(text) {
  const parts = segmenter
    ? [...segmenter.segment(text)].map(({ index, segment }) => [index, segment])
    : [...text.matchAll(/[\p{L}\p{N}\p{M}]+|\S/gu)].map((match) => [match.index, match[0]]);
  return parts.filter(([, part]) => part.trim()).map(([start, part]) => [start, start + part.length]);
}

function overlapping(words, [start, end]) {
  return words.flatMap(([from, to], i) => (Math.min(to, end) - Math.max(from, start) > 0.5 ? [i] : []));
}

function commonLength(first, second) {
  let length = 0;
  while (length < first.length && first[length] === second[length]) length += 1;
  return length;
}
