"""Cleans sources of pairs: reads and repairs them, learns what is usual, measures each pair, and decides.

The first three stages write parts of [`PART`] pairs into a folder next to the results. A run that was stopped, or is
made again with other limits, takes those that are there.
"""

import json
import shutil
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from heapq import heappush, heappushpop
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..data.filters import HashSet
from ..data.sources.tables import Languages
from ..data.sources.text_files import Pair
from ..data.sources.text_source import TextSource, digest, iterate_numbered_pairs, iterate_pairs
from ..files import atomic_write, left_parts
from ..ledger import new_folder
from ..runtime.parts import MapParts, in_process, map_parts
from .cleaner import FORMAT, MOST_PAIRS, Cleaner
from .mixture import passage_finder
from .near_duplicates import BANDS
from .repairs import NAMES, REPAIRS, SIDES, SPELLING, TOKENIZED, repaired
from .rules import MEASURED, REASONS, Limits, hash_of, is_long, look_at
from .side_languages import SWAPPED, SideLanguages
from .spelling import TwoSpellings, changes_to, respelled, two_spellings
from .tokenized import SAMPLE, Spacing, detokenized

PART = 20_000
LARGE = 5  # parts of a text from which learning has a process of its own
WORK, SETTINGS = "measured", "settings.json"
Row = tuple[int, int, str, str]  # number of the source, line, source, target


@dataclass(frozen=True)
class CleanSettings:
    """How pairs are cleaned.

    Attributes:
        repairs: names of the repairs to make, see [`NAMES`].
        reasons: for which pairs are left out, see [`REASONS`].
        min_score, max_length, max_length_ratio, min_script, max_mixed: limits other than those drawn from the text.
        swap_sides: whether pairs whose sides are in each other's language are swapped instead of left out.
        processes: that repair and measure pairs.
    """

    repairs: Collection[str] = NAMES
    reasons: Collection[str] = tuple(REASONS)
    min_score: float | None = None
    max_length: int | None = None
    max_length_ratio: float | None = None
    min_script: float | None = None
    max_mixed: float | None = None
    swap_sides: bool = False
    processes: int = 1

    def limits(self, drawn: Limits) -> Limits:
        """The limits that hold, of those drawn from the text."""
        given = {
            "score": self.min_score, "length": self.max_length, "ratio": self.max_length_ratio,
            "script": self.min_script, "mixed": self.max_mixed,
        }  # fmt: skip
        return Limits(**{**drawn.__dict__, **{name: value for name, value in given.items() if value is not None}})


@dataclass
class Judged:
    """A pair, and what became of it.

    Attributes:
        source_name, line: where it is from.
        pair, raw: after repairs and before.
        repairs: names of those that have changed it.
        reason: why it is left out, "" if it is kept.
        detail: what exactly.
        score: from 0 to 1; not a number if none was learned.
        passage: of a side in the other side's language, such as `"target: la casa blanca"`; or "".
        mixed: the share of the side's words that are in such passages.
    """

    source_name: str
    line: int
    pair: Pair
    raw: Pair
    repairs: Sequence[str]
    reason: str
    detail: str
    score: float
    passage: str = ""
    mixed: float = 0.0


def judge(
    sources: Sequence[TextSource],
    languages: Languages,
    folder: Path,
    settings: CleanSettings,
    cleaner: Cleaner | None = None,
    tests: Sequence[TextSource] = (),
    likes: tuple[Sequence[str], Sequence[str]] = ((), ()),
    run: MapParts | None = None,
) -> tuple[Cleaner, Iterator[Judged]]:
    """Judge all pairs of some sources.

    Args:
        folder: for the parts.
        cleaner: learned from other text; by default, one is learned from these sources.
        tests: test sets, whose lines are left out.
        likes: texts of each side in the spelling that is wanted.
        run: where parts are repaired and measured; by default in `settings.processes`.

    Returns:
        The cleaner, and an iterator over all pairs in their order.
    """
    names = [source.name for source in sources]
    run = run or partial(map_parts, settings.processes)
    _begin(folder, sources, languages, settings, cleaner, likes)
    _, changes = spellings_of(sources, languages, folder, likes)
    texts = _read(sources, languages, folder, settings.repairs, changes, run)
    learned = folder / "cleaner"
    if not learned.exists():
        own = texts, learned, settings.swap_sides, cleaner
        if len(texts) >= LARGE and settings.processes > 1:
            in_process(_learn, *own)
        else:
            _learn(*own)
    cleaner = Cleaner.load(learned)
    measured = _measure(texts, cleaner, folder, settings.swap_sides, run)
    return cleaner, _decide(texts, measured, names, settings, cleaner, _test_hashes(tests, languages))


def _learn(texts: Sequence[Path], learned: Path, swap_sides: bool, cleaner: Cleaner | None) -> None:
    """Learn a cleaner from the pairs of parts, into a new folder."""
    pairs = _sample(texts)
    if swap_sides:
        sides = cleaner.languages if cleaner else SideLanguages.learn(pairs)
        pairs = [pair[::-1] if sides.problem(pair) == SWAPPED else pair for pair in pairs]
    with new_folder(learned, "then try again") as part:
        (cleaner.for_text(pairs) if cleaner else Cleaner.learn(pairs)).save(part)


def _begin(
    folder: Path,
    sources: Sequence[TextSource],
    languages: Languages,
    settings: CleanSettings,
    cleaner: Cleaner | None,
    likes: tuple[Sequence[str], Sequence[str]],
) -> None:
    """Empty the folder, unless its parts are of the same sources, settings, and format."""
    own = {
        "format": FORMAT,
        "sources": [digest(source) for source in sources], "languages": languages, "part": PART,
        "repairs": list(settings.repairs), "swap_sides": settings.swap_sides,
        "cleaner": None if cleaner is None else cleaner.digest(),
        "likes": [hash_of(*own) for own in likes],
    }  # fmt: skip
    text, path = json.dumps(own, indent=2), folder / SETTINGS
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        folder.mkdir(parents=True, exist_ok=True)
        # The file stays, as it shows that the folder is of this command, and describes what is there, or nothing.
        _write_text(path, "")
        for other in folder.iterdir():
            if other.is_dir():
                shutil.rmtree(other)
            elif other != path:
                other.unlink()
        _write_text(path, text)


def is_work(folder: Path) -> bool:
    """Whether a folder has what [`judge`] has written, or nothing."""
    return folder.is_dir() and (
        (folder / SETTINGS).is_file() or not {*folder.iterdir()}.difference(left_parts(folder))
    )


def _write_text(path: Path, text: str) -> None:
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def _read(
    sources: Sequence[TextSource],
    languages: Languages,
    folder: Path,
    repairs: Collection[str],
    changes: tuple[Mapping[str, str], ...],
    run: MapParts,
) -> list[Path]:
    """Write the pairs after repairs into parts; return their paths."""
    done = folder / "texts.json"
    if done.exists():
        return [folder / name for name in json.loads(done.read_text())]
    paths, missing = [], deque()

    def missing_parts() -> Iterator[list[Row]]:
        rows = _rows(sources, languages)
        while part := list(islice(rows, PART)):
            paths.append(folder / f"texts-{len(paths):06}.parquet")
            if not paths[-1].exists():
                missing.append(paths[-1])
                yield part

    spacings = [_spacings(source, languages) for source in sources] if TOKENIZED in repairs else None
    repair = partial(_repair_part, languages=languages, repairs=repairs, changes=changes, spacings=spacings)
    for table in run(repair, missing_parts()):
        _write(missing.popleft(), table)
    _write_text(done, json.dumps([path.name for path in paths]))
    return paths


def _rows(sources: Sequence[TextSource], languages: Languages) -> Iterator[Row]:
    for number, source in enumerate(sources):
        for line, pair in iterate_numbered_pairs(source, languages):
            # Lone surrogates come from escapes in JSON, and cannot be written.
            yield number, line, *(text.encode("utf-8", "replace").decode() for text in pair)


def _repair_part(
    rows: Sequence[Row],
    languages: Languages,
    repairs: Collection[str],
    changes: tuple[Mapping[str, str], ...],
    spacings: Sequence[tuple[Spacing, Spacing]] | None,
) -> pa.Table:
    each, repaired_rows = [name for name in REPAIRS if name in repairs], []
    for number, line, *raw in rows:
        both = [repaired(text, each) for text in raw]
        made = [name for name in each if any(name in own for _, own in both)]
        texts = [text for text, _ in both]
        if spacings:
            before, texts = texts, [detokenized(*own) for own in zip(texts, languages, spacings[number])]
            made += [TOKENIZED] * (texts != before)
        if SPELLING in repairs:
            before, texts = texts, [respelled(text, own) if own else text for text, own in zip(texts, changes)]
            made += [SPELLING] * (texts != before)
        repaired_rows.append((number, line, *texts, *(raw if made else (None, None)), " ".join(made)))
    names = ("source_number", "line", "source", "target", "raw_source", "raw_target", "repairs")
    return pa.table(dict(zip(names, map(list, zip(*repaired_rows)))))


def _spacings(source: TextSource, languages: Languages) -> tuple[Spacing, Spacing]:
    """The spacing of both sides, by the first lines of a source."""
    sides = list(zip(*islice(iterate_pairs(source, languages), SAMPLE))) or [(), ()]
    return Spacing.of(sides[0]), Spacing.of(sides[1])


def spellings_of(
    sources: Sequence[TextSource],
    languages: Languages,
    folder: Path,
    likes: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> tuple[dict[str, list[TwoSpellings]], tuple[dict[str, str], ...]]:
    """What each side spells in two ways, in its first lines, and what is changed of that; kept in the folder."""
    path = folder / "spellings.json"
    if not path.exists():
        pairs = chain.from_iterable(map(partial(_spaced, languages=languages), sources))
        sides = list(zip(*islice(pairs, MOST_PAIRS))) or [(), ()]
        found = [list(map(asdict, two_spellings(texts))) for texts in sides]
        changes = [changes_to(texts, like) if like else {} for texts, like in zip(sides, likes)]
        _write_text(path, json.dumps({"found": found, "changes": changes}))
    read = json.loads(path.read_text(encoding="utf-8"))
    found = {side: list(map(TwoSpellings.of, own)) for side, own in zip(("source", "target"), read["found"])}
    return found, tuple(read["changes"])


def _spaced(source: TextSource, languages: Languages) -> Iterator[Pair]:
    """The pairs of a source, whose words are not cut apart by a tokenizer."""
    spacings = _spacings(source, languages)
    for pair in iterate_pairs(source, languages):
        yield tuple(detokenized(*own) for own in zip(pair, languages, spacings))


def _write(path: Path, table: pa.Table) -> None:
    with atomic_write(path) as part:
        pq.write_table(table, part, compression="zstd")


def _pairs(path: Path) -> list[Pair]:
    table = pq.read_table(path, columns=["source", "target"])
    return list(zip(table["source"].to_pylist(), table["target"].to_pylist()))


def _sample(texts: Iterable[Path]) -> list[Pair]:
    """Pairs to learn from, whatever their order: those with the lowest hashes, without repetitions."""
    heap: list[tuple[int, Pair]] = []
    present: set[int] = set()
    for path in texts:
        for pair in _pairs(path):
            if not any(map(str.isalnum, pair[0])) or not any(map(str.isalnum, pair[1])) or pair[0] == pair[1]:
                continue
            number = hash_of(*pair)
            if number in present or (len(heap) == MOST_PAIRS and -heap[0][0] <= number):
                continue
            present.add(number)
            if len(heap) < MOST_PAIRS:
                heappush(heap, (-number, pair))
            else:
                present.discard(-heappushpop(heap, (-number, pair))[0])
    return [pair for _, pair in sorted(heap, reverse=True)]


def _measure(texts: Sequence[Path], cleaner: Cleaner, folder: Path, swap_sides: bool, run: MapParts) -> list[Path]:
    """Measure the pairs of all parts; return the paths of what was measured."""
    paths = [folder / path.name.replace("texts", "measures") for path in texts]
    missing = [(text, path) for text, path in zip(texts, paths) if not path.exists()]
    measure = partial(_measure_part, cleaner=cleaner, swap_sides=swap_sides)
    tables = run(measure, (_pairs(text) for text, _ in missing))
    for (_, path), table in zip(missing, tables):
        _write(path, table)
    return paths


def _measure_part(pairs: Sequence[Pair], cleaner: Cleaner, swap_sides: bool) -> pa.Table:
    pairs = list(pairs)
    languages = [cleaner.languages.problem(pair) or "" for pair in pairs]
    is_swapped = [swap_sides and problem == SWAPPED for problem in languages]
    for row in np.flatnonzero(is_swapped):
        pairs[row] = pairs[row][::-1]
        languages[row] = cleaner.languages.problem(pairs[row]) or ""
    looks = [look_at(pair, cleaner.scripts) for pair in pairs]
    scores = np.full(len(pairs), np.nan, np.float32)
    if cleaner.measures and cleaner.score:
        scores = cleaner.score(cleaner.measures(pairs))
    columns = {name: np.array([look.values[k] for look in looks], np.float32) for k, name in enumerate(MEASURED)}
    hashes = np.array([look.hashes for look in looks], np.uint64).reshape(-1, 4)
    find = passage_finder(cleaner.languages)
    passages = [find(pair) for pair in pairs]
    bands = np.array([look.bands for look in looks]).reshape(-1, BANDS)
    return pa.table({
        **columns, "score": scores, **{f"hash_{k}": hashes[:, k] for k in range(4)},
        **{f"band_{k}": bands[:, k] for k in range(BANDS)},
        "is_swapped": is_swapped, "is_empty": [look.is_empty for look in looks],
        "is_damaged": [look.is_damaged for look in looks],
        "language": languages,
        "passage": [text for text, _ in passages], "mixed": [share for _, share in passages],
    })  # fmt: skip


def _test_hashes(tests: Sequence[TextSource], languages: Languages) -> tuple[set[int], set[int], set[tuple[int, int]]]:
    """Hashes of the lines of test sets: long ones of each side, and pairs."""
    sides: tuple[set[int], set[int]] = (set(), set())
    both = set()
    for test in tests:
        for pair in iterate_pairs(test, languages):
            looks = look_at(tuple(repaired(text)[0] for text in pair), (frozenset(), frozenset()))
            both.add(looks.hashes[2:])
            for side, text, number in zip(sides, pair, looks.hashes[2:]):
                if is_long(text):
                    side.add(number)
    return (*sides, both)


def _decide(
    texts: Sequence[Path],
    measured: Sequence[Path],
    names: Sequence[str],
    settings: CleanSettings,
    cleaner: Cleaner,
    tests: tuple[set[int], set[int], set[tuple[int, int]]],
) -> Iterator[Judged]:
    limits, wanted = settings.limits(cleaner.limits), set(settings.reasons)
    seen = Seen()
    for text, path in zip(texts, measured):
        found = _columns(path)
        hashes, bands = (np.stack([found[f"{kind}_{k}"] for k in range(size)], 1).tolist()
                         for kind, size in (("hash", 2), ("band", BANDS)))  # fmt: skip
        problems = {**_problems(found, limits, cleaner.length_ratio, tests), "score": found["score"] < limits.score}
        reasons = np.full(len(found["score"]), "", object)
        for name in reversed([name for name in problems if name in wanted]):
            reasons[problems[name]] = name
        for number, (row, reason) in enumerate(zip(pq.read_table(text).to_pylist(), reasons)):
            # A pair that is left out for another reason does not make others repetitions.
            if not reason:
                reason = seen.add(hashes[number], bands[number], wanted)
            pair = row["source"], row["target"]
            raw = (row["raw_source"], row["raw_target"]) if row["repairs"] else pair
            is_swapped = bool(found["is_swapped"][number])
            values = {name: column[number] for name, column in found.items()} if reason else {}
            detail = _detail(reason, values, cleaner.length_ratio) if reason else ""
            yield Judged(
                names[row["source_number"]], row["line"], pair[::-1] if is_swapped else pair, raw,
                row["repairs"].split() + [SIDES] * is_swapped, reason, detail, float(found["score"][number]),
                found["passage"][number], float(found["mixed"][number]),
            )  # fmt: skip


class Seen:
    """The pairs that were kept so far, to find their repetitions."""

    def __init__(self):
        self._pairs, self._bare, self._bands = HashSet(), HashSet(), HashSet()

    def add(self, hashes: Sequence[int], bands: Sequence[int], wanted: Collection[str]) -> str:
        """Add a pair, unless it repeats one: return for which of the reasons that are wanted, or ""."""
        if "duplicate" in wanted and hashes[0] in self._pairs:
            return "duplicate"
        if "near_duplicate" in wanted and (hashes[1] in self._bare or any(one in self._bands for one in bands if one)):
            return "near_duplicate"
        self._pairs.add(hashes[0])
        self._bare.add(hashes[1])
        for one in filter(None, bands):
            self._bands.add(one)
        return ""


def _columns(path: Path) -> dict[str, np.ndarray]:
    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _problems(
    found: Mapping[str, np.ndarray],
    limits: Limits,
    ratio: float,
    tests: tuple[set[int], set[int], set[tuple[int, int]]],
) -> dict[str, np.ndarray]:
    """Which pairs have which reasons against them, in the order of [`REASONS`]; without the score and repetitions."""
    lengths = np.stack([found["source_length"], found["target_length"]])
    of_sides = list(zip(found["hash_2"].tolist(), found["hash_3"].tolist()))
    is_test = [one in tests[0] or other in tests[1] or (one, other) in tests[2] for one, other in of_sides]
    return {
        "empty": found["is_empty"].astype(bool),
        "damaged": found["is_damaged"].astype(bool),
        "copy": found["copied"] >= limits.copied,
        "repeats": found["repeated"] >= limits.repeated,
        "long": lengths.max(0) > limits.length,
        "script": np.minimum(found["source_script"], found["target_script"]) < limits.script,
        "swapped": found["language"] == SWAPPED,
        "language": ~np.isin(found["language"], ("", SWAPPED)),
        "mixed": found["mixed"] > limits.mixed,
        "length": _times(lengths, ratio) > limits.ratio,
        "numbers": found["numbers"] > limits.numbers,
        "addresses": found["addresses"] > limits.addresses,
        "test": np.array(is_test, bool),
    }


def _times(lengths: np.ndarray, ratio: float) -> np.ndarray:
    """How many times longer than usual the longer side is."""
    lengths = np.maximum(lengths, 1)
    return np.exp(np.abs(np.log(lengths[1] / lengths[0] / ratio)))


def _detail(reason: str, found: Mapping[str, Any], ratio: float) -> str:
    """What exactly a pair has."""
    lengths = np.array([found["source_length"], found["target_length"]])
    if reason in ("copy", "repeats"):
        return f"{found['copied' if reason == 'copy' else 'repeated']:.0%} of the words"
    if reason == "mixed":
        return f"{found['mixed']:.0%} of the words, such as {found['passage']}"
    if reason == "long":
        return f"{lengths.max():.0f} characters"
    if reason == "script":
        return f"{min(found['source_script'], found['target_script']):.0%} of the letters"
    if reason in ("numbers", "addresses"):
        return f"{found[reason]:.0f} of them"
    if reason == "length":
        return f"{_times(lengths, ratio):.1f} times as long as usual"
    return {"language": found["language"], "score": f"{found['score']:.3f}"}.get(reason, "")
