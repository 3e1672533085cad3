"""Prepares training text once: reads, filters and tokenizes it into memory-mapped files, cached by content.

However large the text is, only a batch of it and a few numbers per pair are held in memory.
"""

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from ..errors import InputError
from ..runtime.cores import available_cores
from ..text.normalization import WHITESPACE
from .cache import cached
from .encoding import EncodedPairs, PackedIds, encode_to_file, read_encoded, token_lengths
from .filters import FilterSettings, HeldOut, PairFilter, filter_lengths, filter_summary
from .sources.tables import Languages
from .sources.text_files import Pair
from .sources.text_source import TextSource, digest

# Incremented when the meaning of prepared files changes.
FORMAT = 3
TEXT_FILE, SUMMARY_FILE = "text.arrow", "summary.json"
WRITE_BATCH = 10_000
# Entries of a tokenizer's config that say where it was loaded from, or what tokenizer.json says too.
NOT_DIGESTED = {"name_or_path", "transformers_version", "is_local", "auto_map", "local_files_only", WHITESPACE}
SCHEMA = pa.schema({"source": pa.large_string(), "target": pa.large_string(), "origin": pa.int16()})
# Letters of a text that others seldom have in the same order by chance.
FEWEST_LETTERS = 10
# With fewer pairs, starting processes takes longer than they save.
MANY_PAIRS = 100_000


@dataclass(frozen=True)
class PreparedText:
    """Filtered pairs in a memory-mapped file."""

    file: Path  # the Arrow file
    # Rows of `source`, `target` and `origin`, the index of the [`TextSource`] that the pair comes from.
    dataset: Dataset
    digest: str  # a hash of the pairs, regardless of where they came from
    counts: dict[str, int]  # the counts of the [`PairFilter`]: pairs read, and pairs by issue

    def __iter__(self) -> Iterator[Pair]:
        return (pair for batch in self._batches() for pair in pairs_of_rows(batch))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        # Read rather than memory-mapped: mapped pages count toward this process's memory until they are evicted.
        with pa.OSFile(str(self.file)) as file, pa.ipc.open_stream(file) as batches:
            yield from batches

    def overlap(self, pairs: list[Pair]) -> int:
        """How many of some pairs are also in this text."""
        sources, found = pa.array({source for source, _ in pairs}, pa.large_string()), set()
        for batch in self._batches():
            found.update(pairs_of_rows(batch.filter(pc.is_in(batch["source"], value_set=sources))))
        return sum(pair in found for pair in pairs)

    def near_copies(self, pairs: list[Pair]) -> int:
        """How many of some pairs have a source that is in this text, but for case, digits, spaces, and marks.

        Those with few letters, which are like many others, are not counted.
        """
        sources = _letters(pa.array([source for source, _ in pairs], pa.large_string()))
        found = pa.chunked_array(
            [part.filter(pc.is_in(part, value_set=sources)) for part in map(_letters, self._sources())],
            pa.large_string(),
        )
        is_long = pc.greater_equal(pc.utf8_length(sources), FEWEST_LETTERS)
        return pc.sum(pc.and_(pc.is_in(sources, value_set=found.unique()), is_long)).as_py() or 0

    def _sources(self) -> Iterator[pa.Array]:
        return (batch["source"] for batch in self._batches())

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, rows: slice) -> list[Pair]:
        columns = self.dataset[rows]
        return list(zip(columns["source"], columns["target"]))


def _letters(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(pc.utf8_lower(texts), r"[^\p{L}\p{M}]+", "")


def pairs_of_rows(rows: pa.RecordBatch) -> Iterator[Pair]:
    """The pairs in rows of a prepared text."""
    return zip(rows["source"].to_pylist(), rows["target"].to_pylist())


def prepare_text(
    sources: list[TextSource],
    languages: Languages,
    settings: FilterSettings,
    cache: Path,
    held_out: HeldOut | None = None,
    part: str = "train",
    streaming: bool = False,
) -> PreparedText:
    """Return the filtered pairs of the sources, from the cache if neither the sources nor the filters have changed.

    Args:
        held_out: which pairs are held out of the training text.
        part: which part to return: `"train"`, `"validation"` or `"test"`.
        streaming: read datasets from the Hub instead of downloading them first.

    Raises:
        InputError: a source cannot be read or has no usable pairs, or no usable pairs are held out for `part`.
    """
    held_out = held_out or HeldOut()
    # Lengths are filtered later, in tokens.
    settings = dataclasses.replace(settings, max_length=None, max_length_ratio=None)
    key = ["text", FORMAT, [digest(source) for source in sources], list(languages), dataclasses.asdict(settings)]
    if held_out:
        key += [dataclasses.asdict(held_out), part]

    def make(folder: Path) -> None:
        pair_filter = PairFilter(settings)
        texts = (held_out.pairs_of(source, languages, part, streaming) for source in sources)
        if part == "train":
            pairs = filtered_pairs(sources, texts, pair_filter)
        else:
            pairs = ((pair, number) for number, text in enumerate(texts) for pair in pair_filter(text))
        write_text(folder, pairs, pair_filter)

    text = cached(cache, key, make, read_prepared)
    if not len(text):
        raise InputError(
            f"A {part} share of {getattr(held_out, part)} holds out no usable pairs from "
            f"{', '.join(s.name for s in sources)}. "
            f"Raise data.{part}_share, or give a separate {part} set."
        )
    return text


def filtered_pairs(
    sources: list[TextSource], texts: Iterable[Iterable[Pair]], pair_filter: PairFilter
) -> Iterator[tuple[Pair, int]]:
    """Yield the pairs that a filter keeps, one source after another, each with the index of its source.

    Args:
        texts: for each source, the pairs that are not held out.

    Raises:
        InputError: no pairs of a source are left.
    """
    for number, (source, text) in enumerate(zip(sources, texts)):
        before, is_used = dict(pair_filter.counts), False
        for pair in pair_filter(text):
            is_used = True
            yield pair, number
        if not is_used and pair_filter.counts["pairs"] == before["pairs"]:
            # A source without any pairs has already raised an error.
            raise InputError(
                f"{source.name}: all pairs are held out, leaving none to train on. Lower the held-out shares."
            )
        if not is_used:
            counts = {name: count - before[name] for name, count in pair_filter.counts.items()}
            summary = filter_summary(counts, pair_filter.settings)
            raise InputError(f"{source.name} has no usable pairs: {summary}")


def write_text(folder: Path, pairs: Iterable[tuple[Pair, int]], pair_filter: PairFilter) -> None:
    """Write pairs into a folder for [`read_prepared`], holding only a batch of them in memory.

    Args:
        pair_filter: the filter that yields the pairs; its counts are stored too.
    """
    content = hashlib.sha256()
    with pa.OSFile(str(folder / TEXT_FILE), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        rows, rows_written = iter(pairs), 0
        while batch := list(islice(rows, WRITE_BATCH)):
            rows_written += len(batch)
            sources, targets = ([pair[side] for pair, _ in batch] for side in (0, 1))
            content.update(json.dumps([sources, targets]).encode())
            columns = {"source": sources, "target": targets, "origin": [origin for _, origin in batch]}
            writer.write_batch(pa.RecordBatch.from_pydict(columns, schema=SCHEMA))
    summary = {"digest": content.hexdigest(), "rows": rows_written, "counts": pair_filter.counts}
    (folder / SUMMARY_FILE).write_text(json.dumps(summary))


def read_prepared(folder: Path) -> PreparedText:
    """Open the output of [`write_text`], memory-mapped.

    Raises:
        OSError, ValueError, KeyError: the files are damaged.
    """
    summary = json.loads((folder / SUMMARY_FILE).read_text())
    file = folder / TEXT_FILE
    text = PreparedText(file, Dataset.from_file(str(file)), summary["digest"], summary["counts"])
    if len(text) != summary["rows"]:
        raise ValueError(f"{file} contains {len(text)} pairs, not {summary['rows']}.")
    return text


def tokenize(
    text: PreparedText,
    tokenizer: PreTrainedTokenizerBase,
    cache: Path,
    processes: int | None = None,
    over: Callable[..., Iterator[PackedIds]] | None = None,
) -> EncodedPairs:
    """Tokenize all pairs of a text into a memory-mapped file, or read it from the cache if possible.

    Args:
        processes: number of processes; by default one, or one per core for more than 100,000 pairs.
        over: tokenizes the pairs elsewhere; see [`encode_to_file`].
    """
    if processes is None:
        processes = available_cores() if len(text) > MANY_PAIRS else 1
    key = ["ids", FORMAT, text.digest, tokenizer_digest(tokenizer)]
    dataset = cached(
        cache,
        key,
        make=lambda part: encode_to_file(text.dataset, tokenizer, part, processes, over),
        read=lambda folder: read_encoded(folder, len(text)),
    )
    lengths = token_lengths(dataset, "input_ids"), token_lengths(dataset, "labels")
    return EncodedPairs(dataset, *lengths, origins=text.dataset.data.column("origin").to_numpy())


def usable(
    text: PreparedText, pairs: EncodedPairs, settings: FilterSettings
) -> tuple[EncodedPairs, Dataset, dict[str, int]]:
    """Return the pairs that pass the length filters, as token ids and as text, and the counts of all filters.

    Args:
        pairs: the tokenized rows of `text`, in the same order.

    Raises:
        InputError: no pairs are left.
    """
    is_kept, counts = filter_lengths(pairs.source_lengths, pairs.target_lengths, settings)
    counts = {**text.counts, **counts}
    if is_kept.all():
        return pairs, text.dataset, counts
    if not is_kept.any():
        summary = filter_summary(counts, settings)
        raise InputError(f"The training text has no usable pairs: {summary}")
    rows = np.flatnonzero(is_kept)
    kept = EncodedPairs(
        pairs.dataset.select(rows), pairs.source_lengths[rows], pairs.target_lengths[rows], pairs.origins[rows]
    )
    return kept, text.dataset.select(rows), counts


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """A hash of a tokenizer's files."""
    content = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        for path in sorted(Path(folder).iterdir()):
            text = path.read_bytes()
            if path.name == "tokenizer_config.json":
                # Leave out where the tokenizer was loaded from and with which version, which does not matter here.
                config = json.loads(text)
                text = json.dumps({name: config[name] for name in sorted(config) if name not in NOT_DIGESTED}).encode()
            content.update(path.name.encode() + text)
    return content.hexdigest()
