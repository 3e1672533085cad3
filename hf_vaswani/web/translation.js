// Shows the translation: a paragraph for each line of the text, a span for each sentence, and one for each word of a
// sentence that the user points at.

export class Translation {
  /** @param {HTMLElement} view; @param {import("./marks.js").Marks} marks of the text that was typed */
  constructor(view, marks) {
    Object.assign(this, { view, marks, source: "", pieces: [], results: [], spans: [], current: null });
    const point = (event) => this.point(event);
    view.addEventListener("pointermove", point);
    view.addEventListener("click", point);
    view.addEventListener("pointerleave", () => this.showNothing());
    view.addEventListener("keydown", (event) => this.move(event));
    view.addEventListener("focus", () => view.matches(":focus-visible") && this.current === null && this.select(0, 0));
    view.addEventListener("blur", () => this.showNothing());
  }

  /** What is between sentences: Chinese and Japanese are written without spaces. */
  get space() {
    return /^(zh|ja|yue|lzh|wuu)\b/u.test(this.view.lang) ? "" : " ";
  }

  get text() {
    return [...this.view.children].map((line) => line.textContent).join("\n");
  }

  /** @param {[number, number][]} pieces where the sentences are in the text */
  setPieces(pieces) {
    const before = this.results;
    this.showNothing();
    Object.assign(this, { pieces, results: [], spans: [] });
    const lines = [];
    let end = 0;
    pieces.forEach(([from, to], i) => {
      const between = this.source.slice(end, from);
      const breaks = i ? between.split(/\r\n|[\n\r\u2028\u2029]/u).length - 1 : 0;
      for (let count = i ? breaks : 1; count > 0; count--) lines.push(paragraph());
      const span = document.createElement("span");
      span.className = "sentence pending";
      span.dataset.index = i;
      // Until the sentence is translated, show what was there before.
      span.textContent = before[i]?.text ?? "…";
      const line = lines.at(-1);
      if (line.childNodes.length) line.append(this.space);
      line.append(span);
      this.spans.push(span);
      end = to;
    });
    this.view.replaceChildren(...lines);
  }

  /** @param {[number, object][]} translations indices of sentences, and their results */
  add(translations) {
    for (const [i, result] of translations) {
      this.results[i] = result;
      // The same text may come again with its words linked: what is selected of it stays so.
      if (this.spans[i].textContent !== result.text) this.spans[i].textContent = result.text;
      this.spans[i].className = "sentence";
    }
  }

  /** Shows how the word at a position in the text was translated. */
  showSource(place) {
    const piece = this.pieces.findIndex(([from, to]) => from <= place && place <= to);
    const result = this.results[piece];
    if (!result) return this.showNothing();
    const within = place - this.pieces[piece][0];
    let word = result.source.findIndex(([from, to]) => from <= within && within < to);
    if (word < 0) word = result.source.findIndex(([, to]) => to === within);
    if (word < 0) return this.showNothing();
    const targets = result.links.filter(([, s]) => s === word).map(([t]) => t);
    this.show(piece, targets, [word]);
  }

  showNothing() {
    for (const word of this.view.querySelectorAll(".word.linked")) word.classList.remove("linked");
    this.current = null;
    this.marks.show([], "");
  }

  /** Shows where a word of the translation comes from. */
  select(piece, word) {
    const result = this.results[piece];
    if (!result?.target[word]) return;
    this.show(piece, [word], result.links.filter(([t]) => t === word).map(([, s]) => s));
    this.current = [piece, word];
  }

  show(piece, targets, sources) {
    const key = `${piece} ${targets} ${sources}`;
    if (this.current && this.shown === key) return;
    this.showNothing();
    this.shown = key;
    this.current = [piece, targets[0] ?? 0];
    const result = this.results[piece];
    const words = this.open(piece);
    for (const t of targets) words[t].classList.add("linked");
    const start = this.pieces[piece][0];
    const inOrder = sources.toSorted((a, b) => a - b);
    const join = (text, spans) => spans.map(([from, to]) => text.slice(from, to)).join(" ");
    const from = inOrder.map((s) => result.source[s]);
    const to = targets.toSorted((a, b) => a - b).map((t) => result.target[t]);
    const sentence = this.source.slice(...this.pieces[piece]);
    this.marks.show(
      from.map(([first, last]) => [first + start, last + start]),
      `${join(sentence, from) || "–"} → ${join(result.text, to) || "–"}`,
    );
  }

  /** The words of a sentence as elements, which are created if they do not exist yet. */
  open(piece) {
    const span = this.spans[piece];
    const { text, target } = this.results[piece];
    if (target.length && !span.firstElementChild) {
      const nodes = [];
      let end = 0;
      target.forEach(([from, to], i) => {
        const word = document.createElement("span");
        word.className = "word";
        word.dataset.index = i;
        word.textContent = text.slice(from, to);
        nodes.push(text.slice(end, from), word);
        end = to;
      });
      span.replaceChildren(...nodes, text.slice(end));
    }
    return span.children;
  }

  point({ target, clientX, clientY }) {
    const sentence = target.closest(".sentence");
    const piece = sentence && this.spans.indexOf(sentence);
    if (!sentence || !this.results[piece]) return this.showNothing();
    this.open(piece);
    const word = document.elementFromPoint(clientX, clientY)?.closest(".word");
    // Between two words, the last one stays selected.
    if (word) this.select(piece, Number(word.dataset.index));
  }

  move(event) {
    const { key } = event;
    if (key === "Escape") return this.showNothing();
    const last = this.results.length - 1;
    const [piece, word] = this.current ?? [0, 0];
    const isLeftwards = this.spans[piece]?.parentElement.matches(":dir(rtl)");
    const step = { ArrowRight: isLeftwards ? -1 : 1, ArrowLeft: isLeftwards ? 1 : -1 }[key];
    if (key === "Home") this.select(0, 0);
    else if (key === "End") this.select(last, this.results[last]?.target.length - 1);
    else if (step) this.step(piece, word, step);
    else return;
    event.preventDefault();
    this.view.querySelector(".word.linked")?.scrollIntoView({ block: "nearest" });
  }

  step(piece, word, step) {
    if (this.current === null) return this.select(0, 0);
    if (this.results[piece]?.target[word + step]) return this.select(piece, word + step);
    // The next sentence that has words.
    for (let other = piece + step; other >= 0 && other < this.pieces.length; other += step) {
      const words = this.results[other]?.target.length;
      if (words) return this.select(other, step > 0 ? 0 : words - 1);
    }
  }
}

function paragraph() {
  const line = document.createElement("p");
  line.dir = "auto";
  return line;
}
