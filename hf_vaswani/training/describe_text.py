"""What `hf-vaswani clean` would find in the text of a run, and what training, validation, and test text differ in."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ..cleaning.compare import compare, group_spellings, of_each_kind, shown_group
from ..cleaning.mixture import passage_finder
from ..cleaning.repairs import ENTITY, TAG
from ..cleaning.side_languages import SideLanguages
from ..cleaning.spelling import two_spellings
from ..cleaning.tokenized import Spacing
from ..data.sources.text_files import Pair
from .setup.splits import Splits

# Pairs that are looked at, and of which the languages are; and the share of pairs with a flaw that is worth a line.
LOOKED_AT, LEARNED, LEAST = 5000, 2500, 0.005
# Groups of spellings that are shown, and differences between two texts.
MOST_SPELLINGS, MOST_DIFFERENCES = 3, 3
SIDES = ("source", "target")


def describe_flaws(pairs: Sequence[Pair]) -> list[str]:
    """What cleaning would find in training text, apart from what the filters of a run count; often nothing.

    Args:
        pairs: of the training text, or some of them.
    """
    pairs = list(dict.fromkeys(pairs))
    shares = {
        "HTML entities": _share(any(map(ENTITY.search, pair)) for pair in pairs),
        "HTML tags": _share(any(map(TAG.search, pair)) for pair in pairs),
        **_languages(pairs[:: max(-(-len(pairs) // LEARNED), 1)]),
    }
    flaws = [f"{share:.1%} of the pairs have {what}" for what, share in shares.items() if share >= LEAST]
    for side, texts in zip(SIDES, zip(*pairs)):
        if Spacing.of(texts).is_tokenized:
            flaws.append(f"the {side} is tokenized, with spaces before its marks")
        if spellings := group_spellings(two_spellings(texts)):
            flaws.append(f"two spellings in the {side}: {'; '.join(map(shown_group, spellings[:MOST_SPELLINGS]))}")
    return flaws and [
        *flaws,
        "hf-vaswani clean repairs these or leaves them out, by itself or with options that its report names",
    ]


def _share(found: Iterator[bool]) -> float:
    values = list(found)
    return sum(values) / max(len(values), 1)


def _languages(pairs: Sequence[Pair]) -> dict[str, float]:
    """The share of pairs with a side in another language, or with passages in one."""
    # What was not translated is counted by the filters.
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    languages = SideLanguages.learn(pairs)
    find = passage_finder(languages)
    counts: Counter[str] = Counter()
    passages: dict[str, str] = {}
    for pair in pairs:
        if problem := languages.problem(pair):
            counts["swapped sides" if problem == "swapped" else f"a {problem}"] += 1
        elif found := find(pair)[0]:
            side, _, passage = found.partition(": ")
            counts[side] += 1
            passages.setdefault(side, passage)
    named = {
        side: f"{SIDES[side == 'source']}-language words in a row in the {side}, such as “{passage}”"
        for side, passage in passages.items()
    }
    return {named.get(what, what): count / len(pairs) for what, count in counts.most_common()}


def describe_differences(pairs: Sequence[Pair], splits: Splits) -> Iterator[str]:
    """What training text and validation or test text differ in, for each side the weightiest."""
    is_all = splits.train is not None and len(splits.train) <= len(pairs)
    training = "the training text" if is_all else "a sample of the training text"
    for name, others in {"validation": splits.validation, **splits.test_sets}.items():
        for side, own, other in zip(SIDES, zip(*pairs), zip(*others)):
            differences = compare(own, other, (training, f"the {name} text"))
            if shown := of_each_kind(differences, MOST_DIFFERENCES):
                yield f"{name}, {side}: {'; '.join(shown)}"
