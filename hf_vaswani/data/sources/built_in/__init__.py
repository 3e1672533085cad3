"""The built-in corpus: 24,000 synthetic German–English pairs, packed; `scripts/corpus` has the grammar behind them.

23,000 pairs are for training, 500 each for validation and test, and no sentence of either side occurs twice.
"""

from pathlib import Path

LANGUAGES = ("de", "en")
SPLITS = ("train", "validation", "test")


def built_in_file(split: str) -> Path:
    """The file of a split, tab-separated, whose header row names the languages."""
    return Path(__file__).with_name(f"{split}.tsv.zst")
