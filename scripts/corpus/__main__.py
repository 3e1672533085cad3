"""Writes the built-in corpus into the package: `python -m scripts.corpus [FOLDER]`, from the repository's root."""

import sys
from pathlib import Path

import zstandard

from . import generate_corpus

FOLDER = Path(__file__).parents[2] / "hf_vaswani" / "data" / "sources" / "built_in"
SMALLEST = 22  # zstd's highest level, since the files are written once and read often


def main(folder: Path) -> None:
    """Write `train.tsv.zst`, `validation.tsv.zst` and `test.tsv.zst`, each with a header row of the languages."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in generate_corpus().items():
        text = "".join(f"{german}\t{english}\n" for german, english in [("de", "en"), *pairs])
        packed = zstandard.ZstdCompressor(level=SMALLEST, write_checksum=True).compress(text.encode())
        (folder / f"{split}.tsv.zst").write_bytes(packed)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
