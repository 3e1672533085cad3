"""A lexical shortlist: the target tokens that CTranslate2 chooses from, given the source tokens, instead of all.

It is learned from sentence pairs and kept in `vmap.txt`, CTranslate2's own format, next to the model or its export: on
each line source token, tab, target tokens; the line without a source token has those that are always allowed. A batch
may use the tokens of all of its sentences.
"""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import numpy as np
from transformers import PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils import cached_file

from ..data.alignment import learn_translations
from ..data.encoding import encode_in_slices, plain_encoder
from ..errors import InputError
from ..files import reading
from ..models.model_files import SHORTLIST_FILE
from ..text.vocabularies import vocabularies

# How many tokens are always allowed, the most frequent ones, and how many translations of each source token.
# Measured on Multi30k and Tatoeba with vocabularies of 8,000 to 10,000 tokens.
FREQUENT, TRANSLATIONS = 1000, 20
MOST_PAIRS = 1_000_000
SEPARATORS = " \t\n\r"
NOT_ON_HUB = {
    f"_raise_exceptions_for_{problem}": False for problem in ("gated_repo", "missing_entries", "connection_errors")
}


def read_shortlist(path: str) -> str | None:
    """The shortlist of a model, a folder or Hub id, or `None`.

    Raises:
        InputError: the file cannot be read.
    """
    file = Path(path) / SHORTLIST_FILE
    if not Path(path).is_dir():
        file = Path(cached_file(path, SHORTLIST_FILE, **NOT_ON_HUB) or file)
    if not file.is_file():
        return None
    with reading(file):
        return file.read_text(encoding="utf-8")


def shortlist_errors(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> list[str]:
    """Why CTranslate2 cannot use a shortlist for a model, if so."""
    errors = []
    if spaced := [token for side in vocabularies(tokenizer) for token in side if set(token) & set(SEPARATORS)]:
        errors.append(f"A shortlist cannot have tokens with spaces, such as {spaced[0]!r}.")
    if (last := _last_fixed(config)) >= FREQUENT:
        errors.append(
            f"A shortlist needs the start and end tokens at the beginning of the vocabulary, but one of them is token "
            f"{last:,}."
        )
    return errors


def learn_shortlist(
    pairs: Iterable[tuple[str, str]],
    tokenizer: PreTrainedTokenizerBase,
    config: PreTrainedConfig,
    frequent: int = FREQUENT,
    translations: int = TRANSLATIONS,
) -> str:
    """Learn which target tokens each source token may become, by IBM model 1, in the format of `vmap.txt`.

    Special tokens, and a token that is the same on both sides, such as a name or a number, are always kept.

    Args:
        pairs: source and target sentences; of more than a million, the first million.
        config: the model's config.
        frequent: how many of the most frequent target tokens are allowed in any sentence.
        translations: how many of the most probable translations of each token are allowed next to it.

    Raises:
        InputError: the vocabulary does not allow it, see [`shortlist_errors`].
    """
    if errors := shortlist_errors(tokenizer, config):
        raise InputError.of(errors)
    texts = tuple(map(list, zip(*islice(pairs, MOST_PAIRS)))) or ([], [])
    source_ids, target_ids = vocabularies(tokenizer)
    names = {number: token for token, number in target_ids.items()}
    special = [
        [ids[token] for token in tokenizer.all_special_tokens if token in ids] for ids in (source_ids, target_ids)
    ]
    encoded = encode_in_slices(plain_encoder(tokenizer), *texts)
    sources, targets = ([row[~np.isin(row, ids)] for row in side] for side, ids in zip(encoded, special))
    best = learn_translations(sources, targets).best(translations)
    counts = np.bincount(np.concatenate(targets), minlength=max(names) + 1)
    # In a shortlist, CTranslate2 takes a token to be where it was in the first batch. Since it has all tokens before
    # them, those that start and end an output do not move.
    always = {*range(_last_fixed(config) + 1), *special[1], *np.argsort(-counts, kind="stable")[:frequent].tolist()}
    always &= names.keys()
    lines = [("", sorted(always))]
    for token, number in sorted(source_ids.items(), key=lambda item: item[1]):
        copy = [target_ids[token]] if token in target_ids else []
        row = [each for each in dict.fromkeys([*copy, *best.get(number, [])]) if each not in always]
        if row:
            lines.append((token, row))
    return "".join(f"{token}\t{' '.join(names[each] for each in row)}\n" for token, row in lines)


def _last_fixed(config: PreTrainedConfig) -> int:
    """The highest of the ids that start and end an output."""
    ends = config.eos_token_id
    return max(config.decoder_start_token_id, *(ends if isinstance(ends, list) else [ends]))
