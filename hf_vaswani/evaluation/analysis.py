"""What the translations of a test set show besides their score: the best and the worst, and where a model is weak."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .score import chrf, sentence_scores

# With fewer sentences, a score by length would be a matter of chance.
FEWEST_SENTENCES = 30


def best_and_worst(
    sources: list[str], hypotheses: list[str], references: list[str], lengths: Sequence[int], number: int = 3
) -> dict[str, list[dict[str, Any]]]:
    """The translations with the highest and the lowest chrF2, a sentence by itself.

    The best are chosen among the longer half of the sentences, for a short one says little; of equal ones the longer
    comes first, then the earlier. A source counts once.

    Args:
        lengths: of the sources, in tokens.
        number: of translations in each list.

    Returns:
        `{"best": […], "worst": […]}`, each entry with "chrf2", "source", "translation" and "reference".
    """
    values = sentence_scores(hypotheses, references, ["chrf"])[0].values
    first = list({source: row for row, source in reversed(list(enumerate(sources)))}.values())
    half = float(np.median([lengths[row] for row in first]))
    best = sorted((row for row in first if lengths[row] >= half), key=lambda row: (-values[row], -lengths[row], row))[
        :number
    ]
    worst = sorted((row for row in first if row not in best), key=lambda row: (values[row], -lengths[row], row))

    def entry(row: int) -> dict[str, Any]:
        texts = {"source": sources[row], "translation": hypotheses[row], "reference": references[row]}
        return {"chrf2": values[row], **texts}

    return {"best": [entry(row) for row in best], "worst": [entry(row) for row in worst[:number]]}


def scores_by_length(hypotheses: list[str], references: list[str], lengths: Sequence[int]) -> list[dict[str, Any]]:
    """chrF2 of the short, the middle and the long third of the sentences; none where there are too few.

    Sentences of one length are in one group, so that the groups may be of other sizes.

    Args:
        lengths: of the sources, in tokens.

    Returns:
        An entry a group, with "shortest" and "longest" (source, in tokens), "sentences" and "chrf2".
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
            score = chrf([hypotheses[row] for row in rows], [references[row] for row in rows])
            groups.append(
                {
                    "shortest": int(lengths[rows].min()),
                    "longest": int(lengths[rows].max()),
                    "sentences": len(rows),
                    "chrf2": score.value,
                }
            )
    return groups


def short_example(sources: list[str], hypotheses: list[str], fewest: int = 10, most: int = 60) -> dict[str, str]:
    """The first sentence of a length to show, in characters, and its translation; without one, the first of all."""
    rows = (row for row, source in enumerate(sources) if fewest <= len(source.strip()) <= most)
    row = next(rows, 0)
    return {"source": sources[row].strip(), "translation": hypotheses[row]}
