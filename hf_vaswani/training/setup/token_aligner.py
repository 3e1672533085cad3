"""What aligns the tokens of the training pairs, for guided alignment."""

from collections.abc import Callable, Iterable

import numpy as np
from transformers import PreTrainedTokenizerBase

from ...data.encoding import encode_in_slices
from ...data.epochs import TokenizedCorpus
from ...data.sources.text_files import Pair
from ...data.token_alignment import TokenAligner
from ...text.markers import KEEP_TOKENS
from ...text.vocabularies import vocabularies
from ..optimization.step_batches import Corpus

# The number of pairs, drawn at random, from which word translations are learned: as many as that can use.
ALIGNED_SAMPLE = 500_000


def random_rows(size: int) -> np.ndarray:
    """The pairs of a text, of a given number, from which word translations are learned, in their order."""
    return np.sort(np.random.default_rng(0).permutation(size)[:ALIGNED_SAMPLE])


def learn_aligner(
    corpus: Corpus, tokenizer: PreTrainedTokenizerBase, sample: Callable[[], Iterable[Pair]]
) -> TokenAligner:
    """What aligns the tokens of the training pairs, learned from them; the same in every process.

    Args:
        sample: reads the pairs to learn from if each epoch is tokenized again, once as in an epoch.
    """
    if isinstance(corpus, TokenizedCorpus):
        columns = corpus.pairs.dataset[random_rows(len(corpus.pairs))]
        rows = columns["input_ids"], columns["labels"]
    else:
        sources, targets = map(list, zip(*sample()))
        rows = encode_in_slices(corpus.encode, sources, targets, np.random.default_rng(0))
    sides = [[np.array(row, np.int64) for row in side] for side in rows]
    special = [
        [ids[token] for token in tokenizer.all_special_tokens if token in ids and token not in KEEP_TOKENS]
        for ids in vocabularies(tokenizer)
    ]
    return TokenAligner.learn(*sides, (special[0], special[1]))
