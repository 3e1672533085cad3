"""The built-in corpus: 24,000 synthetic German–English pairs, compressed; their grammar is in `scripts/corpus`.

23,000 pairs are for training and 500 each for validation and test, and no sentence occurs twice on either side.
"""

from pathlib import Path

LANGUAGES = ("de", "en")
SPLITS = ("train", "validation", "test")


def built_in_file(split: str) -> Path:
    """The path of a split's file: tab-separated, with a header row that names the languages."""
    return Path(__file__).with_name(f"{split}.tsv.zst")
