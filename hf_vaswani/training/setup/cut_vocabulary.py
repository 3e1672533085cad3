"""Cuts the vocabulary of a model that training starts from to what some languages need, with the same translations.

In models for many languages, embeddings are most of the weights. All tokens stay that are spelled with the characters
of the text, so that every text with these characters is divided into the same tokens as before.
"""

import json
import string
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...data.sources.text_files import Pair
from ...data.tokenizers.tokenizer import load_tokenizer
from ...errors import InputError
from ...text.languages import is_multilingual, language_codes

# Texts that must be divided into the same tokens afterwards.
CHECKED = 1000
# Settings of a search that are ids of tokens, or lists of them.
SEARCH_IDS = ("bos", "eos", "pad", "decoder_start", "forced_bos", "forced_eos")
SEARCH_LISTS = ("suppress_tokens", "begin_suppress_tokens")


def cut_tokenizer(
    tokenizer: PreTrainedTokenizerBase, texts: Iterable[Pair], languages: list[str]
) -> PreTrainedTokenizerBase:
    """A tokenizer with the tokens that are spelled with the characters of some texts, or with ASCII.

    Args:
        texts: pairs in the languages that are kept.
        languages: their codes; NLLB loses the tokens of all others.

    Raises:
        InputError: the tokenizer is not built on the tokenizers library, or cannot be cut.
    """
    kind = type(tokenizer).__name__
    if not tokenizer.is_fast:
        raise InputError(f"training.keep_languages: a {kind} is not built on the tokenizers library, which this needs")
    sample = []
    alphabet = spelling(tokenizer, [string.printable])
    for pair in texts:
        alphabet |= spelling(tokenizer, pair)
        if len(sample) < CHECKED:
            sample += pair
    special = set(tokenizer.all_special_tokens) | set(tokenizer.get_added_vocab())
    if is_multilingual(tokenizer) and not hasattr(tokenizer, "lang_code_to_id"):
        special -= language_codes(tokenizer) - set(languages)
    with tempfile.TemporaryDirectory() as name:
        tokenizer.save_pretrained(name)
        folder = Path(name)
        content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        tokens = cut_json(content, settings, alphabet, special)
        (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        cut = load_tokenizer(name)
    cut.name_or_path = tokenizer.name_or_path
    is_same = cut.convert_ids_to_tokens(list(range(len(cut)))) == tokens
    if not is_same or [cut.tokenize(text) for text in sample] != [tokenizer.tokenize(text) for text in sample]:
        raise InputError(f"training.keep_languages: the vocabulary of this {kind} cannot be cut. Remove the key")
    return cut


def spelling(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> set[str]:
    """The characters of texts as tokens are spelled with them."""
    backend, found = tokenizer.backend_tokenizer, set()
    for text in texts:
        text = backend.normalizer.normalize_str(text) if backend.normalizer else text
        pieces = backend.pre_tokenizer.pre_tokenize_str(text) if backend.pre_tokenizer else [(text, None)]
        found.update(*(piece for piece, _ in pieces))
    return found


def cut_json(content: dict[str, Any], settings: dict[str, Any], alphabet: set[str], special: set[str]) -> list[str]:
    """Cut the contents of `tokenizer.json` and `tokenizer_config.json`; returns the tokens that are left, by id."""
    model, added = content["model"], content["added_tokens"]
    is_unigram = model["type"] == "Unigram"
    pieces = enumerate(token for token, _ in model["vocab"])
    known = dict(pieces) if is_unigram else {i: token for token, i in model["vocab"].items()}
    known |= {token["id"]: token["content"] for token in added}
    removed = {token["content"] for token in added} - special
    kept = [
        i
        for i, token in sorted(known.items())
        if token in special or (token not in removed and set(token) <= alphabet)
    ]
    new_ids = {old: new for new, old in enumerate(kept)}
    if is_unigram:
        model["vocab"] = [entry for i, entry in enumerate(model["vocab"]) if i in new_ids]
        model["unk_id"] = new_ids[model["unk_id"]]
    else:
        model["vocab"] = {token: new_ids[i] for token, i in model["vocab"].items() if i in new_ids}
        pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
        model["merges"] = [pair for pair in pairs if {*pair, "".join(pair)} <= model["vocab"].keys()]
    content["added_tokens"] = [{**token, "id": new_ids[token["id"]]} for token in added if token["id"] in new_ids]
    for token in (content["post_processor"] or {}).get("special_tokens", {}).values():
        token["ids"] = [new_ids[i] for i in token["ids"]]
    for name in ("extra_special_tokens", "additional_special_tokens"):
        if isinstance(settings.get(name), list):
            settings[name] = [token for token in settings[name] if token in special]
    settings.pop("added_tokens_decoder", None)
    return [known[i] for i in kept]


def cut_model(model: PreTrainedModel, rows: list[int]) -> None:
    """Give a model the embeddings of some tokens, in this order; logits of these tokens stay as they are.

    Args:
        rows: the id that each token has had.

    Raises:
        InputError: the padding token would have another id, which is a part of the architecture.
    """
    if rows.index(model.config.pad_token_id) != model.config.pad_token_id:
        raise InputError("training.keep_languages: the id of the padding token would change. Remove the key")
    for weight in {model.get_input_embeddings().weight, model.get_output_embeddings().weight}:
        # Not with resize_token_embeddings, which ties weights that differ in the files of mT5 and T5 v1.1.
        value = nn.Parameter(weight.detach()[rows], weight.requires_grad)
        for module in model.modules():
            if getattr(module, "weight", None) is weight:
                module.weight = value
                setattr(module, "num_embeddings" if isinstance(module, nn.Embedding) else "out_features", len(rows))
    model.config.vocab_size = len(rows)
    if (bias := getattr(model, "final_logits_bias", None)) is not None:
        model.final_logits_bias = bias[:, rows]
    new_ids = {old: new for new, old in reversed(list(enumerate(rows)))}
    for config in (model.config, model.generation_config):
        for name in SEARCH_IDS:
            if isinstance(old := getattr(config, f"{name}_token_id", None), int):
                setattr(config, f"{name}_token_id", new_ids.get(old))
        for name in SEARCH_LISTS:
            if old := getattr(config, name, None):
                setattr(config, name, [new_ids[i] for i in old if i in new_ids])
        if words := getattr(config, "bad_words_ids", None):
            config.bad_words_ids = [[new_ids[i] for i in ids] for ids in words if set(ids) <= new_ids.keys()]


def rows_of(tokenizer: PreTrainedTokenizerBase, before: PreTrainedTokenizerBase, like: str | None) -> list[int]:
    """The id that each token of a tokenizer had in another one; for a token that is new, that of `like`."""
    known = before.get_vocab()
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return [known[token] if token in known else known[like] for token in tokens]
