// Marks words in the text that was typed. A text area cannot show marks itself, so the same text lies behind it in the
// same font but transparent, and only its marks are visible. It also makes the text area as tall as its text.

export class Marks {
  /** @param {HTMLElement} source, mirror, link: the text area, the element behind it, and the one that names words */
  constructor(source, mirror, link) {
    Object.assign(this, { source, mirror, link, text: "", isMarked: false });
  }

  setText(text) {
    this.text = text;
    this.isMarked = false;
    // A line break at the end begins a new line only if something follows it.
    this.mirror.textContent = `${text}\u200b`;
    this.link.textContent = "";
  }

  /**
   * @param {[number, number][]} spans where the words to mark are in the text
   * @param {string} name the words as text, for users who cannot see the marks
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
