import itertools

import numpy as np
import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    NllbTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from hf_vaswani import VaswaniTokenizer
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS
from hf_vaswani.translator.pairs import score_pairs

from ..conftest import tiny_model, word_tokenizer
from ..core.test_modeling_vaswani import reference_logits
from ..families import LANGUAGES, family

PAIRS = [("w1 w2 w3", "w4 w5"), ("w6", "w7 w8 w9 w10 w11"), ("", "w1"), ("w2 w2", ""), ("w3 w4 w5 w6", "w1")]
END = 2


def by_hand(model, tokenizer, source, target) -> np.ndarray:
    """Log-probabilities of the target's tokens in float64, from the formulas of the paper."""
    source_ids, labels = tokenizer(source)["input_ids"], tokenizer(text_target=target)["input_ids"]
    logits = reference_logits(model, torch.tensor(source_ids), torch.tensor([1, *labels[:-1]]))
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return log_probabilities[range(len(labels)), labels]


@pytest.mark.parametrize("batch_tokens", [None, 6, 1])
def test_log_probabilities_match_the_formulas(tokenizer, batch_tokens):
    model = tiny_model()
    scores = list(score_pairs(model, tokenizer, PAIRS, batch_tokens=batch_tokens, with_tokens=True))
    for (source, target), score in zip(PAIRS, scores):
        expected = by_hand(model, tokenizer, source, target)
        assert score.log_probability == pytest.approx(expected.sum(), abs=1e-4)
        assert [token for token, _ in score.tokens] == [*target.split(), "</s>"]
        assert [value for _, value in score.tokens] == pytest.approx(expected, abs=2e-5)
        assert score.length == len(expected) and score.score == pytest.approx(expected.mean(), abs=2e-5)


def test_target_is_encoded_with_its_own_vocabulary():
    backends = word_tokenizer(["a", "b", "c"]), word_tokenizer(["x", "c", "a"])
    tokenizer = VaswaniTokenizer.from_backends(*backends, **SPECIAL_TOKENS)
    model = tiny_model(share_encoder_decoder_embeddings=False, vocab_size=7, decoder_vocab_size=7)
    [score] = score_pairs(model, tokenizer, [("a b", "c x")], with_tokens=True)
    logits = model(torch.tensor([[4, 5, END]]), decoder_input_ids=torch.tensor([[1, 5, 4]])).logits[0].double()
    expected = logits.log_softmax(-1)[range(3), [5, 4, END]]
    assert [token for token, _ in score.tokens] == ["c", "x", "</s>"]
    assert [value for _, value in score.tokens] == pytest.approx(expected.tolist(), abs=1e-5)


def other_models():
    small = {"vocab_size": 40, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "pad_token_id": 0,
             "bos_token_id": 1, "eos_token_id": END, "max_position_embeddings": 64}  # fmt: skip
    marian = MarianConfig(**small, decoder_start_token_id=0, forced_eos_token_id=None)
    bart = BartConfig(**small, decoder_start_token_id=END, forced_bos_token_id=7, forced_eos_token_id=None)
    t5 = T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, pad_token_id=0,
                  eos_token_id=END, decoder_start_token_id=0, initializer_factor=0.2)  # fmt: skip
    return {
        "Vaswani": lambda: tiny_model(),
        "Marian": lambda: MarianMTModel(marian),
        "Bart": lambda: BartForConditionalGeneration(bart),
        "T5": lambda: T5ForConditionalGeneration(t5),
    }


@pytest.mark.parametrize(
    ("name", "kind", "length_penalty"),
    [("Vaswani", "gnmt", 0.6), *((name, None, penalty) for name in other_models() for penalty in (0.6, 2.0))],
)
def test_score_equals_that_of_generate_for_generated_outputs(name, kind, length_penalty, tokenizer):
    torch.manual_seed(0)
    model = other_models()[name]().eval()
    settings = model.generation_config
    settings.length_penalty, settings.renormalize_logits = length_penalty, True
    if kind:
        settings.length_penalty_type = kind
    # Only a few tokens are allowed, so that the end token is a probable one.
    settings.bad_words_ids, settings.suppress_tokens = [[0], [3]], [1, *range(6, 40)]
    sources = ["w1 w2 w3", "w4", "w5 w6"]
    compared = 0
    for source in sources:
        output = model.generate(
            **tokenizer(source, return_tensors="pt"),
            max_new_tokens=12,
            num_beams=4,
            num_return_sequences=4,
            return_dict_in_generate=True,
            output_scores=True,
        )
        for sequence, score in zip(output.sequences.tolist(), output.sequences_scores.tolist()):
            if END not in sequence[1:]:
                continue
            target = tokenizer.convert_ids_to_tokens(sequence[1 : sequence.index(END, 1)])
            [got] = score_pairs(model, tokenizer, [(source, " ".join(target))])
            assert got.score == pytest.approx(score, abs=1e-4)
            compared += 1
    assert compared >= 3


def test_forced_language_token_has_no_cost():
    vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b"])}
    tokenizer = NllbTokenizer(vocab=vocabulary, merges=[], src_lang="eng_Latn", tgt_lang="fra_Latn")
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    model = M2M100ForConditionalGeneration(M2M100Config(**sizes, **heads, pad_token_id=1, bos_token_id=0)).eval()
    language = tokenizer.convert_tokens_to_ids("fra_Latn")
    model.generation_config.renormalize_logits = True
    model.generation_config.bad_words_ids = [[i] for i in range(len(tokenizer)) if i not in (2, 4, 5, 6, language)]
    inputs = tokenizer("ab a", return_tensors="pt")
    options = {"num_beams": 8, "num_return_sequences": 8, "max_new_tokens": 6, "return_dict_in_generate": True}
    output = model.generate(**inputs, forced_bos_token_id=language, output_scores=True, **options)
    scores = dict(zip(map(tuple, output.sequences[:, 1:].tolist()), output.sequences_scores.tolist()))
    [expected] = [score for ids, score in scores.items() if ids[:2] == (language, 2)]
    [got] = score_pairs(model, tokenizer, [("ab a", "")], with_tokens=True, src_lang="eng_Latn", tgt_lang="fra_Latn")
    assert got.tokens[0] == ("fra_Latn", 0.0) and got.length == 2
    assert got.score == pytest.approx(expected, abs=1e-5)


def test_forced_language_token_of_m2m100_has_no_cost(tmp_path):
    model, tokenizer = family("M2M100", tmp_path)
    source, target = LANGUAGES["M2M100"]
    [got] = score_pairs(model, tokenizer, [("ein hund", "haus")], with_tokens=True, src_lang=source, tgt_lang=target)
    assert got.tokens[0] == (f"__{target}__", 0.0)
    assert got.log_probability == pytest.approx(sum(value for _, value in got.tokens[1:]))


def test_length_penalty_of_the_config_is_used(tokenizer):
    model = tiny_model()
    settings = model.generation_config
    settings.length_penalty, settings.length_penalty_type = 0.6, None
    [score] = score_pairs(model, tokenizer, [("w1", "w2 w3 w4 w5 w6 w7")])
    assert score.length == 7 and score.score == pytest.approx(score.log_probability / 7**0.6)
    settings.length_penalty_type = "gnmt"
    [score] = score_pairs(model, tokenizer, [("w1", "w2 w3 w4 w5 w6 w7")])
    assert score.score == pytest.approx(score.log_probability / 2**0.6)


def test_pair_that_cannot_be_scored_is_reported_and_does_not_affect_the_others(tokenizer):
    model = tiny_model(position_type="learned", max_position_embeddings=8)
    pairs = [("w1", "w2"), ("w1", "w3 " * 8), ("w4", "w5")]
    reports = []
    scores = list(score_pairs(model, tokenizer, pairs, report=lambda *error: reports.append(error)))
    assert scores[1] is None and scores[0] and scores[2]
    assert reports == [(2, "9 tokens on one side, more than the limit of 8")]
    assert list(score_pairs(model, tokenizer, pairs, max_length=1, report=lambda *_: None)) == [None] * 3


def test_side_without_tokens_is_reported(tokenizer):
    bare = PreTrainedTokenizerFast(tokenizer_object=word_tokenizer(["w1"]), **SPECIAL_TOKENS)
    bare._tokenizer.post_processor = None
    reports = []
    report = lambda *error: reports.append(error)  # noqa: E731
    scores = list(score_pairs(tiny_model(), bare, [("", "w1"), ("w1", "w1"), ("w1", "")], report=report))
    assert [score is None for score in scores] == [True, False, True]
    assert [number for number, _ in reports] == [1, 3]


def test_pairs_are_read_as_needed(tokenizer, monkeypatch):
    monkeypatch.setattr("hf_vaswani.translator.pairs.PAIRS_AT_ONCE", 4)
    read = []
    pairs = ((f"w{read.append(number) or number}", "w1") for number in itertools.count(1))
    scores = score_pairs(tiny_model(), tokenizer, pairs)
    assert [next(scores).length for _ in range(6)] == [2] * 6
    assert len(read) == 8


def test_model_in_training_mode_scores_without_dropout_and_stays_in_it(tokenizer):
    model = tiny_model(dropout=0.5)
    expected = list(score_pairs(model, tokenizer, PAIRS))
    assert list(score_pairs(model.train(), tokenizer, PAIRS)) == expected
    assert model.training


@pytest.mark.parametrize("name", ["src_lang", "tgt_lang"])
def test_language_that_is_not_a_string_is_rejected_by_name(name, tokenizer):
    with pytest.raises(ValueError, match=f"{name} must be a str, got int"):
        score_pairs(tiny_model(), tokenizer, PAIRS, **{name: 1})


def test_lone_surrogate_is_scored_as_the_replacement_character(tokenizer):
    model = tiny_model()
    [got] = score_pairs(model, tokenizer, [("w1 \ud800", "w2 \ud800")])
    [expected] = score_pairs(model, tokenizer, [("w1 \ufffd", "w2 \ufffd")])
    assert got == expected
