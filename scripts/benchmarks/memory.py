"""Peak memory of preparing and of streaming a large corpus that is generated on the fly.

Usage: python scripts/benchmarks/memory.py [--pairs 2000000] [--way prepared|streamed]. The prepared corpus is
filtered, written, given a vocabulary, tokenized with several processes and read for one epoch of batches; the streamed
one is read part by part. Each way runs in its own process, whose peak is printed together with its children's.
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import accumulate, islice
from pathlib import Path

WAYS = ("prepared", "streamed")
# ru_maxrss is in KiB on Linux and in bytes on macOS.
UNIT = 1 if sys.platform == "darwin" else 1024


def generated_pairs(number: int) -> Iterator[tuple[str, str]]:
    """Random sentences of 5 to 40 out of 50,000 made-up words with Zipf frequencies, and their reversals."""
    generator = random.Random(1)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = ["".join(generator.choices(syllables, k=1 + rank % 4)) for rank in range(50_000)]
    cumulative = list(accumulate(1 / (rank + 10) for rank in range(len(words))))
    for _ in range(number):
        sentence = generator.choices(words, cum_weights=cumulative, k=generator.randint(5, 40))
        yield " ".join(sentence), " ".join(reversed(sentence))


def prepare(number: int, folder: Path) -> int:
    """Prepare a corpus, and count the pairs in an epoch of its batches."""
    from hf_vaswani.data.epochs import Budget, TokenizedCorpus
    from hf_vaswani.data.filters import FilterSettings, PairFilter
    from hf_vaswani.data.prepared import read_prepared, tokenize, usable, write_text
    from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
    from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer

    settings = FilterSettings(drop_duplicates=True, max_length=256)
    pair_filter = PairFilter(settings)
    (folder / "text").mkdir()
    write_text(folder / "text", ((pair, 0) for pair in pair_filter(generated_pairs(number))), pair_filter)
    text = read_prepared(folder / "text")
    tokenizer = train_tokenizer(text, TokenizerArguments(vocab_size=8000))
    pairs, _, _ = usable(text, tokenize(text, tokenizer, folder / "cache"), settings)
    corpus = TokenizedCorpus(pairs, Budget(4096))
    return sum(len(pairs.dataset[batch]["labels"]) for part in corpus.parts(0) for batch in part.batches)


def stream(number: int, folder: Path) -> int:
    """Stream a corpus, and count the pairs in an epoch."""
    from hf_vaswani.data.encoding import plain_encoder
    from hf_vaswani.data.epochs import Budget, StreamedCorpus
    from hf_vaswani.data.filters import FilterSettings
    from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
    from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(list(islice(generated_pairs(number), 20_000)), TokenizerArguments(vocab_size=8000))
    encode = plain_encoder(tokenizer)
    corpus = StreamedCorpus(
        [lambda: generated_pairs(number)], None, FilterSettings(count_duplicates=False), encode, encode,
        Budget(4096, max_length=256), part_size=100_000,
    )  # fmt: skip
    return sum(len(part.pairs.dataset[batch]["labels"]) for part in corpus.parts(0) for batch in part.batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--way", choices=WAYS)
    options = parser.parse_args()
    if options.way is None:
        for way in WAYS:
            subprocess.run([sys.executable, __file__, f"--pairs={options.pairs}", f"--way={way}"], check=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        work = prepare if options.way == "prepared" else stream
        number = work(options.pairs, Path(folder))
    own, children = (
        resource.getrusage(who).ru_maxrss * UNIT / 2**30 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(f"{options.way}: {number:,} pairs; peak resident memory {own:.2f} GiB, largest child {children:.2f} GiB")


if __name__ == "__main__":
    main()
