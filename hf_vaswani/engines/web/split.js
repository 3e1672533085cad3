// Splits a text into pieces that are translated one by one: at line breaks, then at the ends of sentences. A sentence
// that is too long is split at the ends of clauses, then at whitespace, then between characters.

const CLOSING = "[\"'”’»)\\]」』】）》]*";
// Best first. Scripts that are written without spaces need none after their punctuation marks.
const DIVISIONS = [
  new RegExp(`[.!?…؟۔।॥։።។။]+${CLOSING}\\s+|[。！？｡．]+${CLOSING}\\s*`, "gu"),
  new RegExp(`[,;:–—،؛፣፤]${CLOSING}\\s+|[，、；：]${CLOSING}\\s*`, "gu"),
  /\s+/gu,
];
const CHARACTERS = 64;

/**
 * @param {string} text
 * @param {(text: string) => boolean} fits whether a piece is short enough
 * @returns {[number, number][]} where the pieces begin and end, without the whitespace around them
 */
export function split(text, fits) {
  const pieces = [];
  for (const line of text.matchAll(/[^\r\n\u2028\u2029]+/gu)) {
    for (const [start, end] of divide(line[0], 0)) {
      pieces.push(...fitting(text, line.index + start, line.index + end, fits, 1));
    }
  }
  return pieces;
}

/** Splits a stretch of text into parts that fit, each with as many divisions as possible. */
function fitting(text, start, end, fits, level) {
  [start, end] = trimmed(text, start, end);
  if (start === end) return [];
  if (fits(text.slice(start, end)) || (level > DIVISIONS.length && end - start <= 2)) return [[start, end]];
  const pieces = [];
  let open = null; // the part to which further divisions are added while it fits
  for (const [from, to] of divide(text.slice(start, end), level)) {
    const part = [start + from, start + to];
    if (open && fits(text.slice(open[0], part[1]).trim())) {
      open[1] = part[1];
      continue;
    }
    if (open) pieces.push(trimmed(text, ...open));
    open = null;
    if (fits(text.slice(...part).trim())) open = part;
    else pieces.push(...fitting(text, ...part, fits, level + 1));
  }
  if (open) pieces.push(trimmed(text, ...open));
  return pieces;
}

/** Splits a text into parts at the given level; beyond the last division, into slices, at last of one character. */
function divide(text, level) {
  if (level >= DIVISIONS.length) return slices(text, level === DIVISIONS.length ? CHARACTERS : 1);
  const ends = [...text.matchAll(DIVISIONS[level])].map((match) => match.index + match[0].length);
  return pairs([0, ...ends, text.length]);
}

/** Splits a text into slices of `size` UTF-16 units, or one more where a character would be cut in two. */
function slices(text, size) {
  const ends = [0];
  for (let end = size; end < text.length; end += size) {
    if (/[\udc00-\udfff]/.test(text[end])) end += 1;
    ends.push(end);
  }
  return pairs([...ends, text.length]);
}

function pairs(ends) {
  return ends.slice(1).map((end, i) => [ends[i], end]).filter(([start, end]) => start < end);
}

function trimmed(text, start, end) {
  const part = text.slice(start, end).trimStart();
  return [end - part.length, end - part.length + part.trimEnd().length];
}
