import pytest
import torch
from transformers import pipeline

from hf_vaswani import VaswaniTokenizer
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS
from hf_vaswani.errors import InputError
from hf_vaswani.models.ensemble import Ensemble
from hf_vaswani.models.load import load_ensemble

from ..conftest import tiny_model, word_tokenizer

SOURCE = torch.tensor([[5, 9, 12, 7, 2], [6, 8, 2, 0, 0]])
INPUTS = {"input_ids": SOURCE, "attention_mask": SOURCE.ne(0).long()}
GERMAN_ENGLISH = {"source_language": "de", "target_language": "en"}
ENGLISH_GERMAN = {"source_language": "en", "target_language": "de"}


def member(seed, **changes):
    torch.manual_seed(seed)
    return tiny_model(**changes).double()


@pytest.fixture(scope="module")
def members():
    return [member(1), member(2, norm_position="pre", d_model=24, decoder_layers=3, position_type="learned")]


def test_distribution_is_the_mean_over_the_members(members):
    target = torch.tensor([[1, 7, 8], [1, 4, 3]])
    probabilities = [model(**INPUTS, decoder_input_ids=target).logits.softmax(-1) for model in members]
    logits = Ensemble(members)(**INPUTS, decoder_input_ids=target).logits
    torch.testing.assert_close(logits.double().exp(), sum(probabilities) / 2, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_search_follows_the_mean_distribution(members, num_beams):
    ensemble = Ensemble(members)
    output = ensemble.generate(**INPUTS, num_beams=num_beams, max_new_tokens=6, min_new_tokens=6)
    without_cache = ensemble.generate(
        **INPUTS, num_beams=num_beams, max_new_tokens=6, min_new_tokens=6, use_cache=False
    )
    assert torch.equal(output, without_cache)
    assert not torch.equal(
        output, members[0].generate(**INPUTS, num_beams=num_beams, max_new_tokens=6, min_new_tokens=6)
    )


def test_ensemble_of_one_model_equals_that_model(members):
    settings = {"num_beams": 4, "num_return_sequences": 2, "max_new_tokens": 8, "return_dict_in_generate": True}
    ours, alone = Ensemble(members[1:]).generate(**INPUTS, **settings), members[1].generate(**INPUTS, **settings)
    assert torch.equal(ours.sequences, alone.sequences)
    torch.testing.assert_close(ours.sequences_scores, alone.sequences_scores)


def test_output_stays_within_the_positions_of_all_members():
    ensemble = Ensemble([member(1), member(2, position_type="learned", max_position_embeddings=9)])
    assert ensemble.generate(**INPUTS, eos_token_id=None, num_beams=2).shape[1] <= 9


def test_models_with_different_vocabularies_are_rejected(members):
    with pytest.raises(ValueError, match="Model 2 of the ensemble has vocab_size=41"):
        Ensemble([members[0], member(3, vocab_size=41)])


def test_attention_of_an_ensemble_is_rejected(members, tokenizer):
    translator = pipeline("translation", model=Ensemble(members), tokenizer=tokenizer)
    with pytest.raises(ValueError, match="An ensemble has no attention or alignments of its own"):
        translator("w1", return_alignments=True, max_new_tokens=2)


def test_arguments_that_an_ensemble_would_ignore_are_rejected(members):
    ensemble = Ensemble(members)
    for module in (ensemble, ensemble.get_encoder()):
        with pytest.raises(TypeError, match="unexpected keyword argument 'position_ids'"):
            module(torch.tensor([[4, 5, 2]]), position_ids=torch.zeros(1, 3))


def test_models_with_different_target_vocabularies_are_rejected(tmp_path):
    source = word_tokenizer(["ein", "Hund"])
    folders = []
    for words in (["a", "dog"], ["un", "chien"]):
        folder = tmp_path / words[0]
        VaswaniTokenizer.from_backends(source, word_tokenizer(words), **SPECIAL_TOKENS).save_pretrained(folder)
        tiny_model(vocab_size=6, share_encoder_decoder_embeddings=False).save_pretrained(folder)
        folders.append(str(folder))
    with pytest.raises(InputError, match="has a different tokenizer from"):
        load_ensemble(folders)


def test_models_with_different_languages_are_rejected():
    with pytest.raises(ValueError, match="^Model 2 of the ensemble translates en to de, the first de to en.$"):
        Ensemble([member(1, **languages) for languages in (GERMAN_ENGLISH, ENGLISH_GERMAN)])
    assert Ensemble([member(1, **GERMAN_ENGLISH), member(2)])
