"""What aligns the tokens of the training pairs, for guided alignment."""

import numpy as np
from transformers import PreTrainedTokenizerBase

from ...data.epochs import TokenizedCorpus
from ...data.token_alignment import TokenAligner
from ...text.vocabularies import vocabularies
from ..optimization.step_batches import Corpus

# The number of pairs, drawn at random, from which word translations are learned: as many as that can use.
ALIGNED_SAMPLE = 500_000


def random_rows(size: int) -> np.ndarray:
    """The pairs of a text, of a given number, from which word translations are learned, in their order."""
    return np.sort(np.random.default_rng(0).permutation(size)[:ALIGNED_SAMPLE])


def learn_aligner(corpus: Corpus, tokenizer: PreTrainedTokenizerBase) -> TokenAligner:
    """What aligns the tokens of the training pairs, learned from them; the same in every process."""
    assert isinstance(corpus, TokenizedCorpus)  # other corpora and guided alignment are not both given
    columns = corpus.pairs.dataset[random_rows(len(corpus.pairs))]
    sides = [[np.array(row, np.int64) for row in columns[name]] for name in ("input_ids", "labels")]
    special = [
        [ids[token] for token in tokenizer.all_special_tokens if token in ids] for ids in vocabularies(tokenizer)
    ]
    return TokenAligner.learn(*sides, (special[0], special[1]))
