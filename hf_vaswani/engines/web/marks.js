// Marks words in the text that was typed. A text area has no marks of its own: behind it lies the same text in the same
// letters, which are transparent, and only the marks are seen. It also makes the text area as high as its text.

export class Marks {
  /** @param {HTMLElement} source, mirror, link: the text area, what lies behind it, and where words are named */
  constructor(source, mirror, link) {
    Object.assign(this, { source, mirror, link, text: "", isMarked: false });
  }

  setText(text) {
    this.text = text;
    this.isMarked = false;
    // A line break at the end begins a line only with something behind it.
    this.mirror.textContent = `${text}\u200b`;
    this.link.textContent = "";
  }

  /**
   * @param {[number, number][]} spans where the marked words are in the text
   * @param {string} name what the words say, for those who do not see marks
   */
  show(spans, name) {
    if (!spans.length && !this.isMarked) return;
    this.isMarked = spans.length > 0;
    const nodes = [];
    let end = 0;
    for (const [from, to] of spans) {
      const mark = document.createElement("mark");
      mark.textContent = this.text.slice(from, to);
      nodes.push(this.text.slice(end, from), mark);
      end = to;
    }
    this.mirror.replaceChildren(...nodes, `${this.text.slice(end)}\u200b`);
    this.link.textContent = name;
  }
}
