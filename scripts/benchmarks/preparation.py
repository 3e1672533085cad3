"""Preparing a corpus for training, compared with `datasets.map` with the same tokenizer and number of processes.

Both read two text files, drop duplicates and pairs with a side of more than 256 tokens, tokenize, and keep the lengths
that batches are made from. Two corpus sizes show how time and memory grow.

Run it with `run.py`; on its own, it measures one of the two.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from measuring import Table, compare, in_own_process, peak_memory

CONTESTANTS = ("datasets.map", "hf_vaswani")
MAX_LENGTH = 256
VOCABULARY = 8000


def tables(folder: Path, options: argparse.Namespace) -> list[Table]:
    """One table for each corpus size."""
    made = []
    for number in (options.pairs // 2, options.pairs):
        text = folder / f"{number}"
        if not text.exists():
            generate(text, number)
        made.append(
            compare(
                f"Preparing {number:,} pairs", "pairs", CONTESTANTS, options.rounds,
                lambda name, text=text: in_own_process(__file__, name, "--text", text),
            )
        )  # fmt: skip
    return made


def generate(folder: Path, number: int) -> None:
    """Write two text files and a tokenizer."""
    from memory import generated_pairs

    from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
    from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer

    folder.mkdir()
    with open(folder / "source.txt", "w") as source, open(folder / "target.txt", "w") as target:
        first = []
        for pair in generated_pairs(number):
            first += [pair] if len(first) < 20_000 else []
            source.write(f"{pair[0]}\n")
            target.write(f"{pair[1]}\n")
    train_tokenizer(first, TokenizerArguments(vocab_size=VOCABULARY)).save_pretrained(folder / "tokenizer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("--text", type=Path, required=True)
    options = parser.parse_args()
    prepare = with_datasets if options.contestant == "datasets.map" else with_hf_vaswani
    with tempfile.TemporaryDirectory() as cache:
        # Imports that users need anyway are not timed.
        work = prepare(options.text, Path(cache))
        start = time.perf_counter()
        number = work()
        seconds = time.perf_counter() - start
    print(json.dumps({"speed": number / seconds, "memory": peak_memory(), "notes": f"{number:,} pairs kept"}))


def with_hf_vaswani(text: Path, cache: Path):
    from transformers import PreTrainedTokenizerFast

    from hf_vaswani.data.filters import FilterSettings, PairFilter
    from hf_vaswani.data.prepared import read_prepared, tokenize, usable, write_text

    tokenizer = PreTrainedTokenizerFast.from_pretrained(text / "tokenizer")

    def work() -> int:
        settings = FilterSettings(drop_duplicates=True, max_length=MAX_LENGTH)
        pair_filter = PairFilter(settings)
        (cache / "text").mkdir()
        with open(text / "source.txt") as source, open(text / "target.txt") as target:
            pairs = ((left.rstrip("\n"), right.rstrip("\n")) for left, right in zip(source, target))
            write_text(cache / "text", ((pair, 0) for pair in pair_filter(pairs)), pair_filter)
        prepared = read_prepared(cache / "text")
        usable_pairs, _, _ = usable(prepared, tokenize(prepared, tokenizer, cache / "ids"), settings)
        return len(usable_pairs.dataset)

    return work


def with_datasets(text: Path, cache: Path):
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(text / "tokenizer")
    processes = len(os.sched_getaffinity(0))
    os.environ["TOKENIZERS_PARALLELISM"] = "false"

    def pairs():
        with open(text / "source.txt") as source, open(text / "target.txt") as target:
            for left, right in zip(source, target):
                yield {"source": left.rstrip("\n"), "target": right.rstrip("\n")}

    def encode(batch):
        ids, labels = tokenizer(batch["source"]).input_ids, tokenizer(batch["target"]).input_ids
        lengths = [max(len(a), len(b)) for a, b in zip(ids, labels)]
        return {"input_ids": ids, "labels": labels, "length": lengths}

    def work() -> int:
        corpus, seen = Dataset.from_generator(pairs, cache_dir=str(cache)), set()

        def is_new(source, target):
            digest = hash((source, target))
            return not (digest in seen or seen.add(digest))

        corpus = corpus.filter(is_new, input_columns=["source", "target"])
        corpus = corpus.map(encode, batched=True, num_proc=processes, remove_columns=["source", "target"])
        return len(corpus.filter(lambda length: length <= MAX_LENGTH, input_columns="length", num_proc=processes))

    return work


def growth(half: Table, whole: Table) -> str:
    """How much more a corpus of twice the size costs with this package, in words."""
    [small], [large] = ([row for row in table.rows if row.name == "hf_vaswani"] for table in (half, whole))
    return (
        f"Twice the pairs take hf_vaswani {2 * small.speed / large.speed:.2f} times the time and "
        f"{large.memory / small.memory:.2f} times the memory."
    )


if __name__ == "__main__":
    main()
