"""The recipe section `augmentation`: which share of the training pairs is changed, and how."""

from ...configuration.keys import Key, Section


class AugmentationArguments(Section):
    """Shares of the training pairs that are changed at random, other ones in each epoch."""

    section = "augmentation"

    uppercase: float = Key(0.0, "share of pairs whose source is written in capitals, such as 0.05", ge=0, le=1)
    no_punctuation: float = Key(0.0, "share of pairs whose source loses its punctuation", ge=0, le=1)
    typos: float = Key(0.0, "share of pairs whose source gets typing errors", ge=0, le=1)
    terms: float = Key(
        0.0, "share of pairs whose source has translations in the place of some words, such as 0.3, so that the model "
        "learns to use the terms that it is given", ge=0, le=1
    )  # fmt: skip
    glossary: str | None = Key(
        None, "file with the terms to use where a pair has some; in other pairs, words that belong together are drawn "
        "at random", is_path=True
    )  # fmt: skip
    placeholders: float = Key(
        0.0, "share of pairs in which words, numbers, addresses and the like become placeholders on both sides, such "
        "as 0.2, so that the model learns to keep what they stand for", ge=0, le=1
    )  # fmt: skip

    def validate(self) -> list[str]:
        """Errors for keys of this section that conflict."""
        if self.glossary and not self.terms:
            return [f"augmentation.glossary={self.glossary} has no effect without augmentation.terms: remove it"]
        return []

    @property
    def shares(self) -> dict[str, float]:
        """The shares that are above 0, by key."""
        return {name: value for name, value in self if isinstance(value, float) and value > 0}

    @property
    def markers(self) -> tuple[list[str], list[str]]:
        """The tokens that source and target must have besides those of text."""
        from ...text.markers import KEEP_TOKENS, TERM_TOKENS  # only these runs need them

        keeps = list(KEEP_TOKENS) if self.placeholders else []
        return keeps + (list(TERM_TOKENS) if self.terms else []), keeps
