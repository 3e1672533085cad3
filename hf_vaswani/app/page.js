// Highlights words that are linked, wherever the page shows them: on hover, on tap, and with the arrow keys.
(() => {
  const words = (side) => [...side.querySelectorAll(".word")];
  const sideOf = (word) => word.parentElement;
  const otherSide = (word) =>
    word.closest(".pair").querySelector(sideOf(word).classList.contains("source") ? ".target" : ".source");

  const linkedTo = (word) => {
    const others = words(otherSide(word));
    return word.dataset.to.split(" ").filter(Boolean).map((number) => others[number]).filter(Boolean);
  };

  const clear = () => {
    for (const word of document.querySelectorAll(".linked .on, .linked .to")) word.classList.remove("on", "to");
  };

  const mark = (word) => {
    clear();
    word.classList.add("on");
    const linked = linkedTo(word);
    for (const other of linked) other.classList.add("to");
    const [from, to] = [word.textContent, linked.map((other) => other.textContent).join(" ") || "–"];
    const status = word.closest(".linked").querySelector(".link");
    const text = sideOf(word).classList.contains("source") ? `${from} → ${to}` : `${to} → ${from}`;
    if (status.textContent !== text) status.textContent = text;
  };

  const wordAt = (event) => event.target.closest?.(".linked .word");
  document.addEventListener("pointerover", (event) => wordAt(event) && mark(wordAt(event)));
  document.addEventListener("focusin", (event) => wordAt(event) && mark(wordAt(event)));
  document.addEventListener("click", (event) => wordAt(event) && moveTo(wordAt(event)));

  // Tab reaches one word of each text; the arrow keys reach the others from there.
  const moveTo = (word) => {
    for (const other of word.closest(".linked").querySelectorAll(".word[tabindex='0']")) other.tabIndex = -1;
    word.tabIndex = 0;
    word.focus();
  };

  document.addEventListener("keydown", (event) => {
    const word = wordAt(event);
    if (!word || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") return clear();
    const side = sideOf(word).classList.contains("source") ? ".source" : ".target";
    const all = [...word.closest(".linked").querySelectorAll(`${side} .word`)];
    const forwards = getComputedStyle(sideOf(word)).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const at = all.indexOf(word);
    // Left and right move along the text, up and down between the source and its translation.
    const to = event.key === "Home" ? all[0] : event.key === "End" ? all.at(-1)
      : ["ArrowLeft", "ArrowRight"].includes(event.key) ? all[at + (event.key === forwards ? 1 : -1)]
      : ["ArrowUp", "ArrowDown"].includes(event.key) ? linkedTo(word)[0] ?? words(otherSide(word))[0] : null;
    if (to === null) return;
    event.preventDefault();
    if (to) moveTo(to);
  });

  const prepare = () => {
    for (const area of document.querySelectorAll("textarea:not([dir=auto])")) area.dir = "auto";
    for (const linked of document.querySelectorAll(".linked")) {
      if (linked.querySelector(".word[tabindex='0']")) continue;
      for (const word of linked.querySelectorAll(".word")) word.tabIndex = -1;
      const first = linked.querySelector(".target .word");
      if (first) first.tabIndex = 0;
    }
  };
  let isWaiting = false;
  new MutationObserver(() => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => { isWaiting = false; prepare(); });
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
