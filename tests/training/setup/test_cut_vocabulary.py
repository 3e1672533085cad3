"""Vocabularies cut to the languages of a run: the same tokens and logits for text in these, in fewer rows."""

import copy
import json
import random

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    NllbTokenizer,
)

from hf_vaswani.errors import InputError
from hf_vaswani.training.setup.cut_vocabulary import cut_model, cut_tokenizer, rows_of

from ...families import family

LATIN, CYRILLIC = "abcdefghijklmnñopqrstuvwxyzãẽ", "абвгдежзиклмнопрстуфхцчшщ"


def words(letters: str, number: int, seed: int) -> list[str]:
    """Lines of random words, many of them repeated, so that there are merges to learn."""
    generator = random.Random(seed)
    known = ["".join(generator.choices(letters, k=generator.randint(2, 8))) for _ in range(60)]
    return [" ".join(generator.choices(known, k=6)) for _ in range(number)]


@pytest.fixture(scope="module")
def nllb():
    """A random NLLB model, and its tokenizer with merges, for Latin and Cyrillic text."""
    learned = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    learned.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    lines = words(LATIN, 300, 0) + words(CYRILLIC, 300, 1)
    learned.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=600, special_tokens=special))
    content = json.loads(learned.to_str())["model"]
    assert len(content["merges"]) > 300
    tokenizer = NllbTokenizer(vocab=content["vocab"], merges=[tuple(pair) for pair in content["merges"]])
    tokenizer.src_lang, tokenizer.tgt_lang = "spa_Latn", "grn_Latn"
    torch.manual_seed(0)
    sizes = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    config = M2M100Config(
        vocab_size=len(tokenizer) + 2,  # as in the checkpoints, more rows than tokens
        d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=40, init_std=1.0, **sizes,
    )  # fmt: skip
    return M2M100ForConditionalGeneration(config).eval(), tokenizer


def inputs_of(tokenizer, texts):
    return tokenizer(texts, text_target=texts[::-1], padding=True, return_tensors="pt")


def test_text_has_the_same_tokens_logits_and_translations_with_fewer_embeddings(nllb, tmp_path):
    model, tokenizer = nllb
    pairs = [(line, line) for line in words(LATIN, 20, 0)]
    cut = cut_tokenizer(tokenizer, pairs, ["grn_Latn", "spa_Latn"])
    rows = rows_of(cut, tokenizer, None)
    assert len(cut) < 0.6 * len(tokenizer)
    assert not any(set(token) & set(CYRILLIC) for token in cut.get_vocab())
    assert {"spa_Latn", "grn_Latn"} <= cut.get_vocab().keys() and "deu_Latn" not in cut.get_vocab()
    small = M2M100ForConditionalGeneration(copy.deepcopy(model.config))
    small.load_state_dict(model.state_dict())
    small.eval()
    cut_model(small, rows)
    small.save_pretrained(tmp_path)
    cut.save_pretrained(tmp_path)
    small = M2M100ForConditionalGeneration.from_pretrained(tmp_path)
    cut = AutoTokenizer.from_pretrained(tmp_path)
    assert small.get_input_embeddings().weight.shape == (len(cut), 16) and small.config.vocab_size == len(cut)
    # Texts that the cut has not seen, in the same characters.
    texts = words(LATIN, 10, 2)
    before, after = inputs_of(tokenizer, texts), inputs_of(cut, texts)
    for name in ("input_ids", "labels"):
        assert torch.equal(torch.tensor(rows)[after[name]], before[name])
    with torch.no_grad():
        logits, small_logits = model(**before).logits, small(**after).logits
    torch.testing.assert_close(small_logits, logits[..., rows])
    removed = sorted(set(range(model.config.vocab_size)) - set(rows))
    search = {"max_new_tokens": 8, "num_beams": 1, "attention_mask": before["attention_mask"]}
    forced, small_forced = (each.convert_tokens_to_ids("grn_Latn") for each in (tokenizer, cut))
    expected = model.generate(before["input_ids"], suppress_tokens=removed, forced_bos_token_id=forced, **search)
    found = small.generate(after["input_ids"], forced_bos_token_id=small_forced, **search)
    assert cut.batch_decode(found) == tokenizer.batch_decode(expected)


@pytest.mark.parametrize("name", ["mBART", "mBART-50", "T5", "Bart"])
def test_vocabularies_of_other_classes_are_cut(name, tmp_path):
    model, tokenizer = family(name, tmp_path)
    cut = cut_tokenizer(tokenizer, [("ein hund", "haus")], ["de_DE"])
    rows = rows_of(cut, tokenizer, None)
    assert len(cut) < len(tokenizer) and "ü" not in cut.get_vocab()
    before, after = (inputs_of(each, ["ein hund", "haus"]) for each in (tokenizer, cut))
    with torch.no_grad():
        expected = model(input_ids=before["input_ids"], labels=before["labels"]).logits[..., rows]
        cut_model(model, rows)
        found = model(input_ids=after["input_ids"], labels=after["labels"]).logits
    torch.testing.assert_close(found, expected)


def test_embeddings_and_lm_head_that_differ_stay_two_matrices(tmp_path):
    model, tokenizer = family("T5", tmp_path)
    # As mT5 and T5 v1.1 are stored, although their configs say that they are tied.
    model.lm_head.weight = torch.nn.Parameter(torch.randn(model.lm_head.weight.shape))
    model.save_pretrained(tmp_path / "start")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "start").eval()
    cut = cut_tokenizer(tokenizer, [("ein hund", "haus")], [])
    rows = rows_of(cut, tokenizer, None)
    before, after = (inputs_of(each, ["ein hund", "haus"]) for each in (tokenizer, cut))
    with torch.no_grad():
        expected = model(input_ids=before["input_ids"], labels=before["labels"]).logits[..., rows]
        cut_model(model, rows)
        model.save_pretrained(tmp_path / "cut")
        loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "cut").eval()
        found = [each(input_ids=after["input_ids"], labels=after["labels"]).logits for each in (model, loaded)]
    assert not torch.equal(loaded.lm_head.weight, loaded.shared.weight) and len(rows) == loaded.config.vocab_size
    for logits in found:
        torch.testing.assert_close(logits, expected)


def test_tokenizer_in_python_is_an_error(tmp_path):
    _, tokenizer = family("M2M100", tmp_path)
    with pytest.raises(InputError, match="a M2M100Tokenizer is not built on the tokenizers library"):
        cut_tokenizer(tokenizer, [("a", "b")], ["de"])
