"""Analysis of the translations of a test set: the best and worst ones, and scores by sentence length."""

from collections.abc import Sequence

import numpy as np

from ..records.run_report import Example, LengthGroup, Sample
from .score import chrf, sentence_scores

# With fewer, scores by length would be noise.
FEWEST_SENTENCES = 30


def best_and_worst(
    sources: list[str],
    hypotheses: list[str],
    references: list[str],
    lengths: Sequence[int],
    number: int = 3,
    lowercase: bool = False,
) -> tuple[list[Sample], list[Sample]]:
    """The translations with the highest and the lowest sentence-level chrF2.

    The best are chosen from the longer half of the sentences, since short ones say little; ties go to the longer
    sentence, then to the earlier. Repeated sources count once.

    Args:
        lengths: number of tokens in each source.
        number: number of translations in each list.
        lowercase: whether chrF2 is of lowercased text.
    """
    values = sentence_scores(hypotheses, references, ["chrf"], chrf={"lowercase": lowercase})[0].values
    first = list({source: row for row, source in reversed(list(enumerate(sources)))}.values())
    half = float(np.median([lengths[row] for row in first]))
    longer = [row for row in first if lengths[row] >= half]
    best = sorted(longer, key=lambda row: (-values[row], -lengths[row], row))[:number]
    worst = sorted(set(first) - set(best), key=lambda row: (values[row], -lengths[row], row))[:number]

    def rated(row: int) -> Sample:
        return Sample(source=sources[row], translation=hypotheses[row], chrf2=values[row], reference=references[row])

    return [rated(row) for row in best], [rated(row) for row in worst]


def scores_by_length(
    hypotheses: list[str], references: list[str], lengths: Sequence[int], lowercase: bool = False
) -> list[LengthGroup]:
    """chrF2 of the shortest, middle and longest third of the sentences; empty if there are too few.

    Sentences of the same length are in one group, so groups may differ in size.

    Args:
        lengths: number of tokens in each source.
        lowercase: whether chrF2 is of lowercased text.
    """
    if len(lengths) < FEWEST_SENTENCES:
        return []
    lengths = np.asarray(lengths)
    ordered = np.sort(lengths)
    bounds = [ordered[len(ordered) // 3 - 1], ordered[2 * len(ordered) // 3 - 1]]
    group_of = np.searchsorted(bounds, lengths)
    groups = []
    for rows in (np.flatnonzero(group_of == number) for number in range(3)):
        if rows.size:
            score = chrf(*([side[row] for row in rows] for side in (hypotheses, references)), lowercase=lowercase)
            shortest, longest = int(lengths[rows].min()), int(lengths[rows].max())
            groups.append(LengthGroup(shortest=shortest, longest=longest, sentences=len(rows), chrf2=score.value))
    return groups


def short_example(sources: list[str], hypotheses: list[str], fewest: int = 10, most: int = 60) -> Example:
    """The first source of `fewest` to `most` characters, with its translation; otherwise, the first source."""
    rows = (row for row, source in enumerate(sources) if fewest <= len(source.strip()) <= most)
    row = next(rows, 0)
    return Example(source=sources[row].strip(), translation=hypotheses[row])
