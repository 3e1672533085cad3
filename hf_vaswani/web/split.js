// Splits a text into pieces that are translated one by one: at line breaks, then at the ends of sentences, by the rules
// of core/sentence_splitting.py. A sentence that is too long is split at the ends of clauses, then at
// whitespace, then between characters.

const CLOSING =
  "(?:[\"'”’»)\\]」』】）》*¹²³⁰⁴-⁹]|“(?![\\p{L}\\p{N}_])|[ \u00a0\u202f]»(?![\\p{L}\\p{N}_])|\\[[0-9]{1,3}\\]" +
  "| ?[\u200d\u2600-\u27bf\ufe0f\u{1f000}-\u{1faff}])*";
// Invisible characters that may follow a mark, as in Hebrew and Arabic; and letters that look like spaces.
const UNSEEN = "[\\x00-\\x08\\x0e-\\x1b\\x7f-\\x84\\xad\u034f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]*";
const SPACE = "[\\s\u2800\u3164\uffa0]";
const OPENING = /[\s"'“„‚‘”«»‹([{¿¡—–\-•*]*/uy;
// The first group is a mark that has other uses, too; scripts with marks of their own need no space after them.
const SENTENCE_END = new RegExp(
  `([.!?…]+)(${CLOSING})${UNSEEN}(${SPACE}*)|[。！？｡．؟۔।॥։።។။]+${CLOSING}${UNSEEN}${SPACE}*`,
  "gu",
);
const LAST_WORD = /[\p{L}\p{N}_.:,’']*$/u;
const ADDRESS = /(www|[@/\\])\S*$/u;
const CONTINUING = "，、；：,;:،؛"; // after a quotation
const QUOTATION = /^[」』][とっ]/u; // followed by the words of its speaker
const ROMAN_NUMBER = /^[IVX]{2,}$/u;
const LOOKED_BACK = 40; // characters before a mark
const ABBREVIATIONS = new RegExp(
  "^(al|approx|ave|blvd|bspw|bzw|ca|capt|cf|col|cpt|dept|dr|dra|evtl|fr|ft|geb|gen|gest|ggf|gov|hon|hr|hrn|ing|inkl|jr|lt|" +
    "maj|mgr|mio|mlle|mme|mr|mrd|mrs|ms|mt|prof|rep|rev|sen|sgt|sig|sog|sr|sra|srta|st|str|tel|univ|vgl|vs|zzgl)$",
  "iu",
);
// Abbreviations only before a number.
const BEFORE_NUMBERS = new RegExp(
  "^(abb|abs|apr|art|aug|bd|ch|dec|dez|eq|feb|fig|jan|jul|jun|kap|mar|nos?|nov|nr|oct|okt|pp|sec|sept?|tab|vol)$",
  "iu",
);
// Words that begin a sentence even after "D.C." or "at 18.", and what is before such a period.
const STARTERS =
  /(Er|Es|Ich|Sie|Wir|Das|He|I|It|She|The|They|This|We|You|Elles?|Ils?|Nous|Vous)(?![\p{L}\p{N}_])/uy;
const BEFORE_STARTERS = /([A-Z]\.[A-Z]|[\p{L}\p{N}_] [0-9IVX]+)$/u;
// Where a sentence may be split: clause ends, whitespace.
const DIVISIONS = [
  new RegExp(`[,;:–—،؛፣፤]${CLOSING}\\s+|[，、；：]${CLOSING}\\s*`, "gu"),
  /\s+/gu,
];
const CLAUSES = 1; // the level of the first of them
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
      pieces.push(...fitting(text, line.index + start, line.index + end, fits, CLAUSES));
    }
  }
  return pieces;
}

/** Splits a stretch of text into parts that fit, each with as many divisions as possible. */
function fitting(text, start, end, fits, level) {
  [start, end] = trimmed(text, start, end);
  if (start === end) return [];
  if (fits(text.slice(start, end)) || (level > DIVISIONS.length + CLAUSES && end - start <= 2)) return [[start, end]];
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

/**
 * Splits a text into parts: level 0 are sentences, then come the divisions, and beyond the last one slices, at last of
 * one character.
 */
function divide(text, level) {
  if (level === 0) return sentences(text);
  const division = level - CLAUSES;
  if (division >= DIVISIONS.length) return slices(text, division === DIVISIONS.length ? CHARACTERS : 1);
  const ends = [...text.matchAll(DIVISIONS[division])].map((match) => match.index + match[0].length);
  return pairs([0, ...ends, text.length]);
}

function sentences(line) {
  const isLowercased = line === line.toLowerCase();
  const ends = [...line.matchAll(SENTENCE_END)]
    .filter((match) => match.index + match[0].length < line.length && endsSentence(line, match, isLowercased))
    .map((match) => match.index + match[0].length);
  const parts = [];
  for (const [start, end] of pairs([0, ...ends, line.length])) {
    if (parts.length && !/[\p{L}\p{N}_]/u.test(line.slice(start, end))) parts.at(-1)[1] = end; // marks alone
    else parts.push([start, end]);
  }
  return parts;
}

/** Whether a mark ends a sentence, judging by the words around it; in lowercased text, any letter may begin one. */
function endsSentence(line, match, isLowercased) {
  const [whole, mark, closing, space] = match;
  const end = match.index + whole.length;
  const lookedBack = line.slice(Math.max(0, match.index - LOOKED_BACK), match.index);
  const [before] = lookedBack.match(LAST_WORD);
  if (mark === undefined) {
    const isNumber = isDigits(before.slice(-1)) && isDigits(line[end]);
    return !isNumber && !CONTINUING.includes(line[end]) && !QUOTATION.test(line.slice(end - 1, end + 1));
  }
  OPENING.lastIndex = end;
  const following = end + OPENING.exec(line)[0].length;
  const after = [...line.slice(following, following + 4)];
  if (!after.length || (isLower(after[0]) && !isLowercased)) return false;
  if (!space && !lacksSpace(mark, before, after, lookedBack)) return false;
  const word = before.split(".").at(-1);
  if (mark !== "." || closing || /[ap]\.m$/u.test(before)) return true;
  STARTERS.lastIndex = following;
  if (STARTERS.test(line) && BEFORE_STARTERS.test(lookedBack)) return true;
  const isAbbreviation = ABBREVIATIONS.test(word) || (isDigits(after[0]) && BEFORE_NUMBERS.test(word));
  const isInitial = [...word].length === 1 && word.toLowerCase() !== word.toUpperCase();
  return !(isAbbreviation || isInitial || ROMAN_NUMBER.test(word) || (isDigits(before) && before.length < 3));
}

/** Whether only the space is missing after a mark, as in "Yes.It is", unlike in names of files and addresses. */
function lacksSpace(mark, before, [first, second = ""], lookedBack) {
  if (ADDRESS.test(lookedBack) || !/\p{L}/u.test(first) || isLower(first)) return false;
  if (second === "." || /\p{Lu}/u.test(second)) return false;
  const letters = [...before].slice(-2).join("");
  return mark !== "." || (/^\p{L}{2}$/u.test(letters) && letters === letters.toLowerCase());
}

function isDigits(text) {
  return /^\p{Nd}+$/u.test(text);
}

function isLower(character) {
  return /\p{Ll}/u.test(character);
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
