"""Invalid arguments of the Python API: each raises one ValueError that names the argument."""

import math
import re

import pytest
import torch
from transformers import AutoTokenizer

from hf_vaswani import TranslationPipeline
from hf_vaswani.evaluation.attention import sentence_attention
from hf_vaswani.translation.ensemble import Ensemble
from hf_vaswani.translation.mbr import rank_candidates, translate_mbr
from hf_vaswani.translation.pair_scores import score_pairs
from hf_vaswani.translation.translate import translate

from ..conftest import tiny_model

NO_NUMBERS = [0, -1, 1.5, math.nan, True, "4"]
IDS = torch.tensor([[5, 6, 2]])
WRONG_IDS = {
    "no dimension": IDS[0, 0],
    "one dimension": IDS[0],
    "three dimensions": IDS[None],
    "no row": IDS[:0],
    "no column": IDS[:, :0],
    "no whole numbers": IDS.float(),
    "a list": IDS.tolist(),
}
wrong_ids = pytest.mark.parametrize("ids", WRONG_IDS.values(), ids=WRONG_IDS.keys())
PAIR = ("w1", "w2")


@pytest.fixture
def translator(tokenizer):
    return TranslationPipeline(tiny_model(), tokenizer=tokenizer)


def is_refused(name, call, *args, **kwargs):
    with pytest.raises(ValueError, match=rf"^{re.escape(name)}"):
        call(*args, **kwargs)


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("name", ["num_beams", "num_return_sequences", "max_new_tokens"])
def test_number_of_a_search_that_is_none_is_refused(translator, name, value):
    is_refused(name, translator.model.generate, IDS, **{name: value})
    is_refused(name, translator, "w1", **{name: value})
    is_refused(name, translator, "", **{name: value})


@pytest.mark.parametrize("value", [[], "</s>", [2, "3"], True, 1.5])
def test_end_tokens_that_are_no_ids_are_refused(translator, value):
    is_refused("eos_token_id", translator.model.generate, IDS, eos_token_id=value)
    is_refused("eos_token_id", translator, "w1", eos_token_id=value)


@pytest.mark.parametrize("num_beams", [1, 2])
@pytest.mark.parametrize("value", [2, [2, 3], torch.tensor([2, 3]), -1, None])
def test_end_tokens_may_be_one_or_several(num_beams, value):
    output = tiny_model().generate(IDS, eos_token_id=value, num_beams=num_beams, max_new_tokens=3)
    assert output.shape[0] == 1


@pytest.mark.parametrize("value", [math.nan, 11, "1", True])
def test_length_penalty_that_is_no_number_in_range_is_refused(translator, value):
    is_refused("length_penalty", translator.model.generate, IDS, num_beams=2, length_penalty=value)
    is_refused("length_penalty", translator, "w1", num_beams=2, length_penalty=value)


@wrong_ids
def test_token_ids_of_another_shape_are_refused(ids):
    model = tiny_model()
    for searched in (model, Ensemble([model, model])):
        is_refused("input_ids", searched.generate, ids, max_new_tokens=3)
        is_refused("decoder_input_ids", searched.generate, IDS, decoder_input_ids=ids, max_new_tokens=3)
    is_refused("input_ids", model, ids, decoder_input_ids=IDS)
    is_refused("decoder_input_ids", model, IDS, decoder_input_ids=ids)
    if isinstance(ids, torch.Tensor):
        is_refused("labels", model, IDS, labels=ids)


@pytest.mark.parametrize("shape", [(1, 2), (2, 3), (3,)])
def test_mask_of_another_shape_than_the_ids_is_refused(shape):
    mask = torch.ones(shape, dtype=torch.long)
    is_refused("attention_mask", tiny_model().generate, IDS, attention_mask=mask, max_new_tokens=3)


@pytest.mark.parametrize("value", ["", 3])
def test_stop_sequence_without_a_token_is_refused(translator, tokenizer, value):
    is_refused("stop_sequence", translator, "w1", stop_sequence=value)
    is_refused("stop_sequence", TranslationPipeline, tiny_model(), tokenizer=tokenizer, stop_sequence=value)


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_size_of_batches_that_is_no_number_is_refused(translator, tokenizer, value):
    model = translator.model
    is_refused("batch_tokens", translator, "w1", batch_tokens=value)
    is_refused("batch_size", translator, "w1", batch_size=value)
    is_refused("batch_size", translate, model, tokenizer, ["w1"], batch_size=value)
    is_refused("batch_tokens", score_pairs, model, tokenizer, [PAIR], batch_tokens=value)
    is_refused("max_length", score_pairs, model, tokenizer, [PAIR], max_length=value)
    is_refused("batch_tokens", list, translate_mbr(translator, ["w1"], samples=2, batch_tokens=value))
    for name in ("batch_tokens", "batch_size"):
        is_refused(name, translator, ["w1"], prefixes=["w2"], **{name: value})


def test_one_text_is_refused_where_a_list_is_wanted(translator, tokenizer):
    is_refused("texts", translate, translator.model, tokenizer, "w1 w2")
    is_refused("texts", translate_mbr, translator, "w1 w2")
    is_refused("prefixes", translator, ["w1", "w2"], prefixes="w2")
    is_refused("prefixes", translator, ["w1", "w2"], prefixes=["w2"])
    is_refused("candidates", rank_candidates, "w1 w2")
    is_refused("references", rank_candidates, ["w1", "w2"], references="w1")
    is_refused("pairs", score_pairs, translator.model, tokenizer, "ab")
    is_refused("source", sentence_attention, translator.model, tokenizer, ["w1"])
    is_refused("target", sentence_attention, translator.model, tokenizer, "w1", ["w1"])


@pytest.mark.parametrize("pair", ["ab", ("w1",), ("w1", "w2", "w3"), ("w1", 2), None])
def test_what_is_no_pair_of_texts_is_refused_by_its_number(translator, tokenizer, pair):
    with pytest.raises(ValueError, match=r"^pairs must be \(source, target\), .* pairs\[1\] is "):
        list(score_pairs(translator.model, tokenizer, [PAIR, pair]))


@pytest.mark.parametrize("utility", ["ter", None])
def test_unknown_utility_is_refused_before_anything_is_translated(utility):
    is_refused("utility must be one of chrf, bleu", rank_candidates, ["a", "b"], utility)
    is_refused("utility must be one of chrf, bleu", translate_mbr, None, ["w1"], utility=utility)


@pytest.mark.parametrize("value", [1, 2.5, math.nan, True])
def test_number_of_samples_that_leaves_no_choice_is_refused(value):
    is_refused("samples", translate_mbr, None, ["w1"], samples=value)


@pytest.mark.parametrize("value", [-0.1, 1, math.nan, "0.02", True])
def test_epsilon_that_is_no_probability_is_refused(value):
    is_refused("epsilon", translate_mbr, None, ["w1"], epsilon=value)


@pytest.mark.parametrize("members", ["ab", tiny_model()], ids=["text", "model"])
def test_ensemble_of_what_is_no_list_is_refused(members):
    is_refused("members", Ensemble, members)


# The assistant of assisted generation, by its path.


def test_assistant_may_be_named_by_its_folder(saved_model, translator, tokenizer):
    texts = ["w1 w2 w3", "w4"]
    expected = translator(texts, max_new_tokens=8)
    assert translator(texts, max_new_tokens=8, assistant_model=str(saved_model)) == expected
    own = TranslationPipeline(translator.model, tokenizer=tokenizer, assistant_model=saved_model)
    assert own(texts, max_new_tokens=8) == expected
    assert own._forward_params["assistant_model"].get_input_embeddings().weight.shape == (40, 16)


def test_assistant_that_cannot_draft_is_refused(saved_model, translator):
    is_refused("assistant_model='/absent'", translator, "w1", assistant_model="/absent")
    is_refused("assistant_model", translator, "w1", assistant_model=3)
    other = AutoTokenizer.from_pretrained(saved_model)
    other.add_tokens(["more"])
    other.save_pretrained(saved_model)
    with pytest.raises(ValueError, match="assistant_model=.* does not have this pipeline's tokenizer"):
        translator("w1", assistant_model=str(saved_model))
