"""Invalid arguments of the Python API: each raises one ValueError that names the argument."""

import math
import re

import pytest
import torch
from transformers import AutoTokenizer

from hf_vaswani import TranslationPipeline
from hf_vaswani.evaluation.attention import sentence_attention
from hf_vaswani.models.ensemble import Ensemble
from hf_vaswani.translator.mbr import rank_candidates, translate_mbr
from hf_vaswani.translator.pairs import score_pairs
from hf_vaswani.translator.pipeline import translate

from ..conftest import tiny_model

NOT_POSITIVE_INTEGERS = [0, -1, 1.5, math.nan, True, "4"]
IDS = torch.tensor([[5, 6, 2]])
WRONG_IDS = {
    "scalar": IDS[0, 0],
    "1-d": IDS[0],
    "3-d": IDS[None],
    "no rows": IDS[:0],
    "no columns": IDS[:, :0],
    "not integers": IDS.float(),
    "list": IDS.tolist(),
}
wrong_ids = pytest.mark.parametrize("ids", WRONG_IDS.values(), ids=WRONG_IDS.keys())
PAIR = ("w1", "w2")


@pytest.fixture
def translator(tokenizer):
    return TranslationPipeline(tiny_model(), tokenizer=tokenizer)


def assert_rejected(name, call, *args, **kwargs):
    with pytest.raises(ValueError, match=rf"^{re.escape(name)}"):
        call(*args, **kwargs)


@pytest.mark.parametrize("value", NOT_POSITIVE_INTEGERS)
@pytest.mark.parametrize("name", ["num_beams", "num_return_sequences", "max_new_tokens"])
def test_search_option_that_is_not_a_positive_integer_is_rejected(translator, name, value):
    assert_rejected(name, translator.model.generate, IDS, **{name: value})
    assert_rejected(name, translator, "w1", **{name: value})
    assert_rejected(name, translator, "", **{name: value})


@pytest.mark.parametrize("value", [[], "</s>", [2, "3"], True, 1.5])
def test_end_tokens_that_are_not_ids_are_rejected(translator, value):
    assert_rejected("eos_token_id", translator.model.generate, IDS, eos_token_id=value)
    assert_rejected("eos_token_id", translator, "w1", eos_token_id=value)


@pytest.mark.parametrize("name", ["split_sentences", "return_warnings", "return_scores", "return_alignments"])
@pytest.mark.parametrize("value", ["no", "false", "", 2])
def test_switch_that_is_neither_true_nor_false_is_rejected(translator, name, value):
    assert_rejected(name, translator, "w1", **{name: value})


@pytest.mark.parametrize("name, value", [("do_sample", "no"), ("temperature", "1"), ("length_penalty", "0.6")])
def test_text_in_place_of_a_setting_of_the_search_is_rejected(translator, name, value):
    assert_rejected(f"{name} must be ", translator, "w1", **{name: value})


@pytest.mark.parametrize("value", ["longest", "only_second", "yes", 2])
def test_truncation_that_would_cut_nothing_is_rejected(translator, value):
    assert_rejected("truncation", translator, "w1", truncation=value)


@pytest.mark.parametrize(
    "name, meant",
    [("nbest", "n_best"), ("beam_size", "num_beams"), ("lenght_penalty", "length_penalty"),
     ("split_sentence", "split_sentences"), ("max_tokens", "max_new_tokens"), ("load_in_8bit", "quantize")],
)  # fmt: skip
@pytest.mark.parametrize("num_beams", [1, 2])
def test_misspelled_argument_is_rejected_with_the_right_one(translator, name, meant, num_beams):
    message = f"{name} is not an argument of translation. Did you mean {meant}?"
    assert_rejected(message, translator, "w1", num_beams=num_beams, **{name: 4})


def test_sets_are_rejected_since_they_have_no_order(translator):
    assert_rejected("The translation pipeline takes a str or a list of str, got set", translator, {"w1", "w2"})
    assert_rejected("prefixes must be a list", translator, ["w1", "w2"], prefixes={"w1", "w2"})
    assert list(translator({"w1": 1}.keys())) == [translator("w1")]


@pytest.mark.parametrize("num_beams", [1, 2])
@pytest.mark.parametrize("value", [2, [2, 3], torch.tensor([2, 3]), -1, None])
def test_one_or_several_end_tokens_are_accepted(num_beams, value):
    output = tiny_model().generate(IDS, eos_token_id=value, num_beams=num_beams, max_new_tokens=3)
    assert output.shape[0] == 1


@pytest.mark.parametrize("value", [math.nan, 11, "1", True])
def test_length_penalty_that_is_not_a_number_in_range_is_rejected(translator, value):
    assert_rejected("length_penalty", translator.model.generate, IDS, num_beams=2, length_penalty=value)
    assert_rejected("length_penalty", translator, "w1", num_beams=2, length_penalty=value)


@wrong_ids
def test_token_ids_of_the_wrong_shape_or_type_are_rejected(ids):
    model = tiny_model()
    for searched in (model, Ensemble([model, model])):
        assert_rejected("input_ids", searched.generate, ids, max_new_tokens=3)
        assert_rejected("decoder_input_ids", searched.generate, IDS, decoder_input_ids=ids, max_new_tokens=3)
    assert_rejected("input_ids", model, ids, decoder_input_ids=IDS)
    assert_rejected("decoder_input_ids", model, IDS, decoder_input_ids=ids)
    if isinstance(ids, torch.Tensor):
        assert_rejected("labels", model, IDS, labels=ids)


@pytest.mark.parametrize("shape", [(1, 2), (2, 3), (3,)])
def test_mask_whose_shape_differs_from_the_ids_is_rejected(shape):
    mask = torch.ones(shape, dtype=torch.long)
    assert_rejected("attention_mask", tiny_model().generate, IDS, attention_mask=mask, max_new_tokens=3)


@pytest.mark.parametrize("value", ["", 3])
def test_stop_sequence_without_a_token_is_rejected(translator, tokenizer, value):
    assert_rejected("stop_sequence", translator, "w1", stop_sequence=value)
    assert_rejected("stop_sequence", TranslationPipeline, tiny_model(), tokenizer=tokenizer, stop_sequence=value)


@pytest.mark.parametrize("value", NOT_POSITIVE_INTEGERS)
def test_batch_size_that_is_not_a_positive_integer_is_rejected(translator, tokenizer, value):
    model = translator.model
    assert_rejected("batch_tokens", translator, "w1", batch_tokens=value)
    assert_rejected("batch_size", translator, "w1", batch_size=value)
    assert_rejected("batch_size", translate, model, tokenizer, ["w1"], batch_size=value)
    assert_rejected("batch_tokens", score_pairs, model, tokenizer, [PAIR], batch_tokens=value)
    assert_rejected("max_length", score_pairs, model, tokenizer, [PAIR], max_length=value)
    assert_rejected("batch_tokens", list, translate_mbr(translator, ["w1"], samples=2, batch_tokens=value))
    for name in ("batch_tokens", "batch_size"):
        assert_rejected(name, translator, ["w1"], prefixes=["w2"], **{name: value})


def test_text_in_place_of_a_list_and_list_in_place_of_a_text_are_rejected(translator, tokenizer):
    assert_rejected("texts", translate, translator.model, tokenizer, "w1 w2")
    assert_rejected("texts", translate_mbr, translator, "w1 w2")
    assert_rejected("prefixes", translator, ["w1", "w2"], prefixes="w2")
    assert_rejected("prefixes", translator, ["w1", "w2"], prefixes=["w2"])
    assert_rejected("candidates", rank_candidates, "w1 w2")
    assert_rejected("references", rank_candidates, ["w1", "w2"], references="w1")
    assert_rejected("pairs", score_pairs, translator.model, tokenizer, "ab")
    assert_rejected("source", sentence_attention, translator.model, tokenizer, ["w1"])
    assert_rejected("target", sentence_attention, translator.model, tokenizer, "w1", ["w1"])


@pytest.mark.parametrize("pair", ["ab", ("w1",), ("w1", "w2", "w3"), ("w1", 2), None])
def test_invalid_pair_is_rejected_with_its_index(translator, tokenizer, pair):
    with pytest.raises(ValueError, match=r"^pairs must be \(source, target\), .* pairs\[1\] is "):
        list(score_pairs(translator.model, tokenizer, [PAIR, pair]))


@pytest.mark.parametrize("utility", ["ter", None])
def test_unknown_utility_is_rejected_before_anything_is_translated(utility):
    assert_rejected("utility must be one of chrf, bleu", rank_candidates, ["a", "b"], utility)
    assert_rejected("utility must be one of chrf, bleu", translate_mbr, None, ["w1"], utility=utility)


@pytest.mark.parametrize("value", [1, 2.5, math.nan, True])
def test_invalid_number_of_samples_is_rejected(value):
    assert_rejected("samples", translate_mbr, None, ["w1"], samples=value)


@pytest.mark.parametrize("value", [-0.1, 1, math.nan, "0.02", True])
def test_epsilon_that_is_not_a_probability_is_rejected(value):
    assert_rejected("epsilon", translate_mbr, None, ["w1"], epsilon=value)


@pytest.mark.parametrize("members", ["ab", tiny_model()], ids=["text", "model"])
def test_ensemble_members_that_are_not_a_list_are_rejected(members):
    assert_rejected("members", Ensemble, members)


# The assistant model of assisted generation, given as a path.


def test_assistant_model_may_be_given_as_a_folder(saved_model, translator, tokenizer):
    texts = ["w1 w2 w3", "w4"]
    expected = translator(texts, max_new_tokens=8)
    assert translator(texts, max_new_tokens=8, assistant_model=str(saved_model)) == expected
    own = TranslationPipeline(translator.model, tokenizer=tokenizer, assistant_model=saved_model)
    assert own(texts, max_new_tokens=8) == expected
    assert own._forward_params["assistant_model"].get_input_embeddings().weight.shape == (40, 16)


def test_unusable_assistant_model_is_rejected(saved_model, translator):
    assert_rejected("assistant_model='/absent'", translator, "w1", assistant_model="/absent")
    assert_rejected("assistant_model", translator, "w1", assistant_model=3)
    other = AutoTokenizer.from_pretrained(saved_model)
    other.add_tokens(["more"])
    other.save_pretrained(saved_model)
    with pytest.raises(ValueError, match="assistant_model=.* does not have this pipeline's tokenizer"):
        translator("w1", assistant_model=str(saved_model))


def test_labels_that_are_not_a_tensor_are_rejected():
    with pytest.raises(ValueError, match="labels must be a tensor of token ids.* got a list"):
        tiny_model()(torch.tensor([[5, 2]]), labels=[[5, 2]])
