"""What a cleaning run found, for a reader who may know neither language: as one page, as Markdown, and as JSON."""

import html
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from heapq import heappush, heappushpop
from itertools import count

from ..errors import counted
from .clean import Judged
from .compare import MOST_LINES, Difference, LineSample, compare, group_spellings, of_each_kind, shown_group
from .flaws import (
    LEAST_SHARE,
    MUCH_MIXED,
    Flaw,
    left_out,
    mixed,
    repaired,
    spelled_in_two_ways,
    unlike_test,
    weightiest,
)
from .repairs import SHOWN as REPAIRED
from .rules import REASONS, Limits, hash_of
from .share_choice import ShareChoice
from .source_table import source_table
from .spelling import TwoSpellings

EXAMPLES = 10
SAMPLE = "sample"
BINS = 20
# Fewer pairs need other settings than those of large texts.
FEW_PAIRS = 100_000
DIFFERENCES = 3  # that are printed for a side
SIDES = ("source", "target")
# Characters of an example.
LONGEST = 200
STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .25rem .75rem; text-align: left; vertical-align: top }
td.n, th.n { text-align: right } tr { border-bottom: 1px solid #ddd } code { background: #f4f4f4 }
ol li { margin: .4rem 0 } i { color: #555 }
.bar { fill: #4878a8 } .out { fill: #c44 } summary { cursor: pointer; margin-top: .5rem }
"""


@dataclass
class CleanReport:
    """Counts and examples of a run.

    Attributes:
        limits: that were applied.
        has_score: whether a score was learned.
        languages: of both sides, as far as an identifier knows them.
        spellings: that a side uses next to each other, by `"source"` and `"target"`.
        tests: the lines of both sides of the test sets.
        test_files: a file with test text of each side, if there is one.
        sources: names of the raw text.
        files: digests of the clean text, by file name.
        share: how much was kept by score, if that was measured.
        read, kept: number of pairs.
        reasons, repairs: how many pairs were left out for each reason, and changed by each repair.
        by_source: for each source the numbers of pairs read, kept, and left out by reason.
        details: for reasons that have them, what exactly, and how often.
        histogram: number of pairs by score, in [`BINS`] steps from 0 to 1.
        examples: for each reason, pairs nearest to the limit.
        mixed: how many pairs were kept whose source or target has passages in the other's language.
        passages: some of these, by side.
    """

    limits: Limits
    has_score: bool
    languages: tuple[str | None, str | None]
    spellings: dict[str, list[TwoSpellings]] = field(default_factory=dict)
    tests: tuple[Sequence[str], Sequence[str]] = ((), ())
    test_files: tuple[str | None, str | None] = (None, None)
    sources: Sequence[str] = ()
    files: dict[str, str] = field(default_factory=dict)
    share: ShareChoice | None = None
    read: int = 0
    kept: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    by_source: dict[str, Counter[str]] = field(default_factory=dict)
    details: Counter[str] = field(default_factory=Counter)
    histogram: list[int] = field(default_factory=lambda: [0] * BINS)
    examples: dict[str, list[tuple[float, int, Judged]]] = field(default_factory=dict)
    mixed: Counter[str] = field(default_factory=Counter)
    much_mixed: Counter[str] = field(default_factory=Counter)
    passages: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self):
        self._numbers = count()
        self._kept = LineSample(), LineSample()

    def add(self, judged: Judged) -> None:
        """Count a pair."""
        own = self.by_source.setdefault(judged.source_name, Counter())
        self.read += 1
        self.kept += not judged.reason
        own.update(["read", judged.reason or "kept"])
        self.repairs.update(judged.repairs)
        if judged.score == judged.score:
            self.histogram[min(int(judged.score * BINS), BINS - 1)] += 1
        if judged.reason:
            self.reasons[judged.reason] += 1
            if judged.reason == "language":
                self.details[judged.detail] += 1
        else:
            self._keep(judged)
        names = [judged.reason or "kept", *(f"repair:{name}" for name in judged.repairs)]
        distance = abs(judged.score - self.limits.score) if names[0] in ("score", "kept") else 0.0
        for name in names:
            self._show(name, distance, judged)
        if not judged.reason:
            self._show(SAMPLE, float(hash_of(*judged.pair)), judged)

    def _show(self, name: str, distance: float, judged: Judged) -> None:
        """Keep a pair as an example, if it is not there and among those of the lowest distances."""
        heap = self.examples.setdefault(name, [])
        if any(judged.raw == other.raw for *_, other in heap):
            return
        # Of equally good ones the first; the heap's first is the worst.
        entry = (-distance, -next(self._numbers), judged)
        if len(heap) < EXAMPLES:
            heappush(heap, entry)
        else:
            heappushpop(heap, entry)

    def _keep(self, judged: Judged) -> None:
        for sample, text in zip(self._kept, judged.pair):
            sample.add(text)
        side, _, passage = judged.passage.partition(": ")
        if passage:
            self.mixed[side] += 1
            self.much_mixed[side] += judged.mixed > MUCH_MIXED
            if len(own := self.passages.setdefault(side, [])) < EXAMPLES and passage not in own:
                own.append(passage)

    @cached_property
    def differences(self) -> dict[str, list[Difference]]:
        """What the kept text and the test sets differ in, by side."""
        training = "the training text" if self.kept <= MOST_LINES else "a sample of the training text"
        return {
            side: compare(own.lines, test, (training, "the test text"))
            for side, own, test in zip(SIDES, self._kept, self.tests)
        }

    @cached_property
    def flaws(self) -> list[Flaw]:
        """What stands out, the weightiest first."""
        found = left_out(self.read, self.kept, self.reasons) + repaired(self.read, self.repairs)
        for side, own, test, file in zip(SIDES, self._kept, self.tests, self.test_files):
            found += spelled_in_two_ways(side, own.lines, test, file)
            whole = self.details[f"{side} in the {SIDES[side == 'source']}'s language"]
            passages = self.passages.get(side, ())
            much = None if self.limits.mixed < 1 else self.much_mixed[side]
            found += mixed(side, self.mixed[side], whole, self.kept, passages, much)
        return weightiest(found + unlike_test(self.differences))

    @property
    def size_hint(self) -> str:
        """With which settings so few pairs are trained on; empty for many."""
        if not 0 < self.kept < FEW_PAIRS:
            return ""
        return "For so few pairs, there is the recipe small_text: hf-vaswani train small_text"

    def shown(self, name: str) -> list[Judged]:
        """The examples of a reason, or of pairs that were kept, best first."""
        return [judged for *_, judged in sorted(self.examples.get(name, []), key=lambda one: one[:2], reverse=True)]

    def lines(self) -> list[str]:
        """The report in a few lines, without what did not occur."""
        share = f"{self.kept / self.read:.1%}" if self.read else "none"
        found = [f"{counted(self.read, 'pair')} read, {self.kept:,} kept ({share})"]
        found += [
            f"  {self.reasons[name]:,} left out: {text}{_detail(self, name)}"
            for name, text in REASONS.items() if self.reasons[name]
        ]  # fmt: skip
        found += [
            f"  {self.repairs[name]:,} repaired: {text}" for name, text in REPAIRED.items() if self.repairs[name]
        ]
        found += [
            f"  two spellings in the {side}: {'; '.join(map(shown_group, group_spellings(own)))}"
            for side, own in self.spellings.items() if own
        ]  # fmt: skip
        found += [
            f"  {count:,} kept with words of the other language in a row in the {side}; --max_mixed leaves them out"
            for side, count in self.mixed.items() if count >= LEAST_SHARE * self.kept
        ]  # fmt: skip
        found += self.share.lines() if self.share else []
        found += [f"  {self.size_hint}"] if self.size_hint else []
        return found + [
            f"  unlike the test text, {side}: {'; '.join(shown)}"
            for side, own in self.differences.items() if (shown := of_each_kind(own, DIFFERENCES))
        ]  # fmt: skip

    def as_json(self) -> str:
        """The counts."""
        values = {
            "sources": self.sources, "files": self.files,
            "read": self.read, "kept": self.kept, "reasons": {name: self.reasons[name] for name in REASONS},
            "repairs": {name: self.repairs[name] for name in REPAIRED},
            "spellings": {side: list(map(asdict, own)) for side, own in self.spellings.items()},
            "stands_out": list(map(asdict, self.flaws)), "mixed": dict(self.mixed),
            "differences": {side: list(map(asdict, own)) for side, own in self.differences.items()},
            "by_source": self.by_source,
            "languages": self.languages, "language_problems": dict(self.details.most_common()),
            "limits": _given(self.limits), "has_score": self.has_score, "histogram": self.histogram,
            "share": asdict(self.share) if self.share else None,
        }  # fmt: skip
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"

    def as_markdown(self) -> str:
        """The report for a card."""
        rows = [
            f"| {name} | {text}{_detail(self, name)} | {self.reasons[name]:,} |"
            for name, text in REASONS.items() if self.reasons[name]
        ]  # fmt: skip
        made = [
            f"| {name} | {text} | {self.repairs[name]:,} |" for name, text in REPAIRED.items() if self.repairs[name]
        ]
        head = f"Of {self.read:,} pairs, {self.kept:,} were kept. {self.size_hint}".strip()
        parts = [head]
        if self.flaws:
            parts.append(
                "\n".join(f"{n}. **{flaw.title}.** {flaw.text} {flaw.remedy}" for n, flaw in _numbered(self.flaws))
            )
        if rows:
            parts.append("\n".join(["| left out | what it is | pairs |", "| --- | --- | --- |", *rows]))
        if made:
            parts.append("\n".join(["| repaired | what it was | pairs |", "| --- | --- | --- |", *made]))
        parts += [
            "\n".join(f"- Two spellings in the {side}: {one}" for one in own)
            for side, own in self.spellings.items()
            if own
        ]
        parts += [
            "\n".join(f"- Unlike the test text, {side}: {one.text}" for one in own)
            for side, own in self.differences.items()
            if own
        ]
        parts += [self.share.as_markdown()] if self.share else []
        return "\n\n".join(parts) + "\n"

    def as_html(self) -> str:
        """The report as a page that needs nothing else."""
        reasons = [
            (name, f"{text}{_detail(self, name)}", f"{self.reasons[name]:,}", f"{self.reasons[name] / self.read:.1%}")
            for name, text in REASONS.items() if self.reasons[name]
        ]  # fmt: skip
        repairs = [(name, text, f"{self.repairs[name]:,}") for name, text in REPAIRED.items() if self.repairs[name]]
        spellings = [
            (side, one.rare, one.usual, ", ".join(" / ".join(pair) for pair in one.examples), f"{one.counts[0]:,}",
             f"{one.counts[1]:,}", f"{one.words:,}")
            for side, own in self.spellings.items() for one in own
        ]  # fmt: skip
        differences = [(side, one.kind, one.text) for side, own in self.differences.items() for one in own]
        share = f" ({self.kept / self.read:.0%})" if self.read else ""
        parts = [
            f"<h1>Cleaned text</h1><p>{counted(self.read, 'pair')} read, {self.kept:,} kept{share}. "
            f"{_with_code(self.size_hint)}</p>",
            _places("Read from", self.sources) + _places("Compared with", [file for file in self.test_files if file]),
            _flaws(self.flaws),
            _section("Left out", ("reason", "what it is", "pairs", "share"), reasons, 2),
            _section("Repaired", ("repair", "what it was", "pairs"), repairs, 2),
            _section(
                "Two spellings",
                ("side", "one", "other", "such as", "words with one", "with the other", "words in both spellings"),
                spellings,
                4,
            ),
            _section("Differences between training and test text", ("side", "kind", "what"), differences, 3),
            source_table(self.by_source, [name for name, *_ in reasons]) if len(self.by_source) > 1 else "",
        ]
        if self.has_score:
            parts.append(
                "<h2>Score</h2><p>How likely a pair is a translation, from 0 to 1, learned from this text: how well "
                "the words of both sides explain each other, and how well numbers, punctuation, and lengths agree. "
                f"Below {self.limits.score:.7g}, pairs are left out. The figure shows all pairs, duplicates and those "
                f"that were left out for other reasons included.</p>{_figure(self.histogram, self.limits.score)}"
            )
        if self.share:
            parts.append(self.share.as_html())
        parts.append("<h2>Examples</h2>")
        parts.append(_examples("kept: some at random", self.shown(SAMPLE)))
        parts.append(_examples("kept: those nearest to the threshold", self.shown("kept")))
        parts += [_examples(f"{name}: {text}", self.shown(name)) for name, text in REASONS.items()]
        parts += [_repaired_examples(name, self.shown(f"repair:{name}")) for name in REPAIRED]
        limits = "".join(
            f"<li>{html.escape(name)}: {value:{'.7g' if value < 1 else '.4g'}}</li>"
            for name, value in _given(self.limits).items()
        )
        parts.append(f"<h2>Thresholds</h2><p>Estimated from the text, unless given as options.</p><ul>{limits}</ul>")
        body = "\n".join(filter(None, parts))
        return (
            f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Cleaned text</title><style>{STYLE}</style>'
            f"\n{body}\n</html>\n"
        )


def _given(limits: Limits) -> dict[str, float]:
    return {name: value for name, value in asdict(limits).items() if math.isfinite(value)}


def _numbered(flaws: list[Flaw]) -> list[tuple[int, Flaw]]:
    return list(enumerate(flaws, start=1))


def _flaws(flaws: list[Flaw]) -> str:
    if not flaws:
        return ""
    items = "".join(
        f"<li><b>{html.escape(flaw.title)}.</b> {html.escape(flaw.text)} <i>{_with_code(flaw.remedy)}</i></li>"
        for flaw in flaws
    )
    return f"<h2>What stands out</h2><ol>{items}</ol>"


def _with_code(text: str) -> str:
    """Text for HTML, in which what is in backticks is code."""
    return re.sub("`(--.+?)`(?=\\W)", r"<code>\1</code>", html.escape(text))


def _detail(report: CleanReport, name: str) -> str:
    if name != "language" or not report.details:
        return ""
    return f" ({', '.join(f'{what}: {number:,}' for what, number in report.details.most_common(5))})"


def _section(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]], text_columns: int) -> str:
    if not rows:
        return ""

    def cells(row: tuple[str, ...], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if column >= text_columns else ''}>{html.escape(cell)}</{tag}>"
            for column, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<h2>{title}</h2><table><tr>{cells(head, 'th')}</tr>{body}</table>"


def _figure(histogram: list[int], limit: float) -> str:
    most, width, height = max(*histogram, 1), 30, 160
    bars = "".join(
        f'<rect class="{"bar" if (number + 0.5) / BINS >= limit else "out"}" x="{number * width}" '
        f'y="{height - pairs / most * height:.1f}" width="{width - 2}" height="{pairs / most * height:.1f}">'
        f"<title>{number / BINS:g} to {(number + 1) / BINS:g}: {pairs:,} pairs</title></rect>"
        for number, pairs in enumerate(histogram)
    )
    ticks = "".join(
        f'<text x="{step * BINS * width:.0f}" y="{height + 18}" text-anchor="middle">{step:g}</text>'
        for step in (0, 0.25, 0.5, 0.75, 1)
    )
    box = f"-15 0 {BINS * width + 30} {height + 24}"
    return f'<svg viewBox="{box}" width="640" role="img" aria-label="Pairs by score">{bars}{ticks}</svg>'


def _places(label: str, places: Sequence[str]) -> str:
    return f"<p>{label} {html.escape('; '.join(places))}</p>" if places else ""


def _examples(title: str, examples: list[Judged]) -> str:
    rows = [(_cut(judged.pair[0]), _cut(judged.pair[1]), judged.detail or _score(judged)) for judged in examples]
    return _details(title, rows)


def _score(judged: Judged) -> str:
    return f"{judged.score:.3f}" if judged.score == judged.score and not judged.reason else ""


def _repaired_examples(name: str, examples: list[Judged]) -> str:
    rows = []
    for judged in examples:
        for before, after in zip(judged.raw, judged.pair):
            rows += [(_cut(before), _cut(after), "")] if before != after else []
    return _details(f"repaired, {name}: {REPAIRED[name]}", rows[:EXAMPLES])


def _details(title: str, rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<details><summary><b>{html.escape(title)}</b></summary><table>{body}</table></details>"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
