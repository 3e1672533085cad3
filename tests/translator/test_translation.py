"""The contract of the translation pipeline of transformers 4, on models of several classes built here."""

import enum
import json

import pytest
import torch
from datasets import Dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BertConfig,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    pipeline,
)
from transformers.pipelines.pt_utils import KeyDataset

from hf_vaswani import TranslationPipeline
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.translator import translator as translator_module
from hf_vaswani.translator.encoder import Encoder
from hf_vaswani.translator.pairs import score_pairs
from hf_vaswani.translator.pipeline import translate
from hf_vaswani.translator.search import default_batch_size

from ..conftest import tiny_model
from ..families import family

WORDS = {"suppress_tokens": [0, 1, 2, 3]}  # with the end token: a random model generates words up to the limit
TEXTS = ["w1 w2 w3 w4 w5", "w6", "w7 w8", "w9 w10 w11", "w30 w14"]


@pytest.fixture
def translator(tokenizer):
    return pipeline("translation", model=tiny_model(), tokenizer=tokenizer)


def test_one_text_gives_a_list_with_one_dict(translator):
    result = translator("w1 w2")
    assert isinstance(translator, TranslationPipeline)
    assert [list(entry) for entry in result] == [["translation_text"]]
    assert isinstance(result[0]["translation_text"], str)


def test_texts_give_a_flat_list_of_dicts(translator):
    result = translator(["w1 w2", "w3"])
    assert [list(entry) for entry in result] == [["translation_text"]] * 2
    assert result[0] == translator("w1 w2")[0]
    assert translator([]) == []


def test_several_hypotheses_give_a_list_per_text(translator):
    options = {"num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 4}
    assert len(translator("w1", **options)) == 2
    assert [len(hypotheses) for hypotheses in translator(["w1", "w2 w3"], **options)] == [2, 2]


@pytest.mark.parametrize("batch_size", [2, 3])
def test_batching_does_not_change_translations(translator, batch_size):
    # By default, each output ends at its source's length + 50.
    texts = ["w1 w2 w3", "w4", "w5 w6"]
    alone = [translator(text, **WORDS)[0] for text in texts]
    assert [len(result["translation_text"].split()) for result in alone] == [54, 52, 53]
    assert translator(texts, batch_size=batch_size, **WORDS) == alone


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [({"batch_tokens": 12}, [[6, 4], [3, 3, 2]]), ({"batch_tokens": 1000, "batch_size": 3}, [[6, 4, 3], [3, 2]])],
)
def test_batches_group_similar_lengths_within_the_token_budget_longest_first(translator, monkeypatch, limits, sizes):
    seen = []
    forward = translator._forward

    def record(inputs, **options):
        seen.append(inputs["attention_mask"].sum(dim=1).tolist())
        return forward(inputs, **options)

    monkeypatch.setattr(translator, "_forward", record)
    translator(TEXTS, max_new_tokens=2, **limits)
    assert seen == sizes


def test_text_over_the_token_budget_forms_its_own_batch(translator):
    assert len(translator(TEXTS, batch_tokens=1, max_new_tokens=2)) == 5


def kinds_of_inputs():
    rows = Dataset.from_dict({"de": TEXTS})
    as_list = {"a list": TEXTS, "a tuple": tuple(TEXTS), "a column": rows["de"]}
    lazily = {
        "a generator": (text for text in TEXTS),
        "a streamed column": rows.to_iterable_dataset()["de"],
        "a KeyDataset": KeyDataset(rows, "de"),
        "a map": map(str, TEXTS),
    }
    return as_list, lazily


def test_all_kinds_of_inputs_give_the_same_results_in_order(translator):
    options = {"max_new_tokens": 5, **WORDS}
    expected = [translator(text, **options)[0] for text in TEXTS]
    assert len({result["translation_text"] for result in expected}) == len(TEXTS)
    as_list, lazily = kinds_of_inputs()
    for kind, inputs in as_list.items():
        assert translator(inputs, **options) == expected, kind
    for kind, inputs in lazily.items():
        results = translator(inputs, **options)
        assert iter(results) is results, kind
        assert list(results) == [[result] for result in expected], kind


def test_generator_is_read_in_growing_windows(translator):
    read = 0

    def texts():
        nonlocal read
        for _ in range(1000):
            read += 1
            yield "w1"

    results = translator(texts(), max_new_tokens=1)
    assert read == 0
    seen = []
    for _ in results:
        seen.append(read)
    assert len(seen) == 1000
    assert sorted(set(seen)) == [128, 640, 1000]


def test_iterator_gives_several_hypotheses_as_a_list_does(translator):
    options = {"n_best": 2, "num_beams": 2, "max_new_tokens": 3}
    assert list(translator(iter(TEXTS), **options)) == translator(TEXTS, **options)


def test_iterator_raises_when_it_reaches_something_other_than_text(translator):
    results = translator(iter(["w1", "w2", None, "w3"]), max_new_tokens=2)
    assert len([next(results), next(results)]) == 2
    with pytest.raises(ValueError, match=r"inputs\[2\] is NoneType: None"):
        next(results)


def test_all_inputs_that_are_not_texts_are_reported_before_any_is_translated(translator, monkeypatch):
    monkeypatch.setattr(translator, "_forward", None)
    with pytest.raises(ValueError, match=r"inputs\[1\] is NoneType: None, inputs\[3\] is int: 7$"):
        translator(["w1", None, "w2", 7])


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u3000\u00a0", "\x00\x07\x9f"])
def test_whitespace_texts_give_empty_translations_without_running_the_model(translator, monkeypatch, blank):
    monkeypatch.setattr(translator, "_forward", None)
    assert translator(blank) == [{"translation_text": ""}]
    assert translator([blank], n_best=2, num_beams=2) == [[{"translation_text": "", "score": 0.0}] * 2]
    assert translator(blank, split_sentences=True) == [{"translation_text": ""}]
    assert translator(blank, return_tensors=True)[0]["translation_token_ids"].tolist() == []


def test_texts_with_odd_characters_are_translated(translator):
    options = {"max_new_tokens": 4, **WORDS}
    assert translator("w1 \ud800", **options) == translator("w1 \ufffd", **options)
    assert translator("w1 \ud83d\ude00", **options) == translator("w1 \U0001f600", **options)
    for text in ["w1\x00w2 \x1b", "Привет 你好", "x" * 100_000]:
        assert len(translator(text, **options)[0]["translation_text"].split()) == 4


@pytest.mark.parametrize(("kind", "penalty"), [("length", 5**0.7), ("gnmt", (10 / 6) ** 0.7)])
@pytest.mark.parametrize("search", [{}, {"num_beams": 3}, {"do_sample": True}])
def test_score_is_the_log_probability_over_the_length_penalty(translator, tokenizer, search, kind, penalty):
    options = {**search, **WORDS, "max_new_tokens": 5, "length_penalty": 0.7, "length_penalty_type": kind}
    torch.manual_seed(0)
    [result] = translator("w1 w2", return_scores=True, return_tensors=True, **options)
    ids = result["translation_token_ids"]
    logits = translator.model(**tokenizer("w1 w2", return_tensors="pt"), decoder_input_ids=ids[None, :-1]).logits[0]
    total = sum(logits[i].log_softmax(-1)[token].item() for i, token in enumerate(ids[1:]))
    assert result["score"] == pytest.approx(total / penalty, rel=1e-4)


def test_beam_search_score_equals_that_of_generate(translator, tokenizer):
    options = {"num_beams": 3, "num_return_sequences": 3, "max_new_tokens": 12, "length_penalty_type": "gnmt"}
    expected = translator.model.generate(
        **tokenizer("w1 w2", return_tensors="pt"), return_dict_in_generate=True, **options
    ).sequences_scores
    scores = [result["score"] for result in translator("w1 w2", return_scores=True, **options)]
    assert scores == pytest.approx(expected.tolist(), rel=1e-4)


@pytest.mark.parametrize("prompt", [[1, 5, 6], [5, 6]], ids=["with start token", "without start token"])
def test_decoder_prompt_does_not_count_toward_the_score(translator, prompt):
    options = {"decoder_input_ids": torch.tensor([prompt]), "max_new_tokens": 1, "return_scores": True}
    [greedy], [beam] = translator("w1 w2", **options), translator("w1 w2", num_beams=2, **options)
    model, tokenizer = translator.model, translator.tokenizer
    logits = model(**tokenizer("w1 w2", return_tensors="pt"), decoder_input_ids=torch.tensor([[1, 5, 6]])).logits
    best = logits[0, -1].log_softmax(-1).max().item()
    assert greedy["score"] == pytest.approx(best, abs=1e-5)
    assert beam["score"] == pytest.approx(best, abs=1e-5)


def test_n_best_gives_n_scored_dicts_per_text_best_first(translator):
    for search in ({"num_beams": 4}, {"do_sample": True}):
        for hypotheses in translator(TEXTS, n_best=3, max_new_tokens=5, **search):
            scores = [hypothesis["score"] for hypothesis in hypotheses]
            assert len(scores) == 3
            assert scores == sorted(scores, reverse=True)
    [single] = translator(["w1"], n_best=1)
    assert set(single) == {"translation_text", "score"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 4, "num_beams": 2}, "n_best=4 .* num_beams=2"),
        ({"n_best": 4}, "n_best=4 .* num_beams=1"),
        ({"num_return_sequences": 3, "num_beams": 2}, "num_return_sequences=3 .* num_beams=2"),
        ({"max_new_tokens": 10**20}, "max_new_tokens must be at most 2,147,483,647"),
        ({"src_lang": 3}, "src_lang must be a str, got int: 3"),
        ({"n_best": 0}, "n_best must be a whole number of at least 1, got 0"),
        ({"n_best": 2, "num_return_sequences": 3, "num_beams": 3}, "n_best=2 and num_return_sequences=3"),
        ({"batch_tokens": 0}, "batch_tokens must be a whole number of at least 1"),
        ({"batch_size": -1}, "batch_size must be a whole number of at least 1"),
        ({"max_source_length": 0}, "max_source_length must be a whole number of at least 1"),
    ],
)
def test_invalid_numbers_raise_a_clear_error_immediately(translator, options, message):
    with pytest.raises(ValueError, match=message):
        translator(iter(["w1"]), **options)


def test_alignments_name_the_tokens_of_both_sides(translator):
    [one, empty] = translator(["w1 w2 w3", ""], return_alignments=True, max_new_tokens=4, **WORDS)
    assert one["source_tokens"] == ["w1", "w2", "w3"]
    assert one["target_tokens"] == one["translation_text"].split()
    assert [target for _, target in one["alignment"]] == [0, 1, 2, 3]
    assert {source for source, _ in one["alignment"]} <= {0, 1, 2}
    assert empty == {"translation_text": "", "alignment": [], "source_tokens": [], "target_tokens": []}


def test_tensors_of_a_batch_contain_no_padding(translator):
    options = {"return_tensors": True, **WORDS}
    alone = [translator(text, **options)[0]["translation_token_ids"].tolist() for text in TEXTS]
    batch = translator(TEXTS, **options)
    assert [result["translation_token_ids"].tolist() for result in batch] == alone


def test_progress_counts_the_texts(translator):
    counts = []
    translator([*TEXTS, ""], batch_size=2, max_new_tokens=2, progress=counts.append)
    assert counts == [1, 2, 2, 1]
    counts.clear()
    translator(["w1 w2. w3 w4.", "w5"], split_sentences=True, batch_size=1, max_new_tokens=2, progress=counts.append)
    assert counts == [1, 1]


def test_subclass_may_override_each_step(tokenizer):
    class Shouting(TranslationPipeline):
        def preprocess(self, text, **options):
            return super().preprocess(text.lower(), **options)

        def postprocess(self, outputs, **options):
            return [
                {"translation_text": r["translation_text"].upper()} for r in super().postprocess(outputs, **options)
            ]

    options = {"max_new_tokens": 4, **WORDS}
    plain = pipeline("translation", model=tiny_model(), tokenizer=tokenizer)
    shouting = Shouting(model=tiny_model(), tokenizer=tokenizer)
    expected = [result["translation_text"].upper() for result in plain(TEXTS, **options)]
    assert [r["translation_text"] for r in shouting([t.upper() for t in TEXTS], **options)] == expected


def test_subclass_may_add_arguments(tokenizer):
    class Replacing(TranslationPipeline):
        def _sanitize_parameters(self, words=None, **options):
            preprocess, forward, postprocess = super()._sanitize_parameters(**options)
            return {**preprocess, **({"words": words} if words else {})}, forward, postprocess

        def preprocess(self, text, words=None, **options):
            return super().preprocess(" ".join((words or {}).get(word, word) for word in text.split()), **options)

    options = {"max_new_tokens": 4, **WORDS}
    replacing = Replacing(model=tiny_model(), tokenizer=tokenizer)
    assert replacing(["w1 w2"], words={"w1": "w5"}, **options) == replacing(["w5 w2"], **options)
    assert replacing(["w1 w2"], **options) != replacing(["w5 w2"], **options)


def test_subclass_may_change_arguments_in_an_overridden_step(tokenizer):
    class Brief(TranslationPipeline):
        def _forward(self, model_inputs, brief=False, **options):
            return super()._forward(model_inputs, **{**options, **({"max_new_tokens": 1} if brief else {})})

    translator = Brief(model=tiny_model(), tokenizer=tokenizer)
    plain = pipeline("translation", model=translator.model, tokenizer=tokenizer)
    options = {"max_new_tokens": 4, **WORDS}
    assert translator("w1 w2", **options) == plain("w1 w2", **options)
    assert translator("w1 w2", brief=True, **options) == plain("w1 w2", **{**options, "max_new_tokens": 1})


def test_arguments_are_resolved_once_for_all_batches(translator, monkeypatch):
    resolved, original = [], translator_module.GenerateArguments
    monkeypatch.setattr(
        translator_module, "GenerateArguments", lambda *given: resolved.append(given) or original(*given)
    )
    translator(["w1", "w2", "w3"], batch_size=1, max_new_tokens=2, n_best=2, num_beams=2)
    assert len(resolved) == 1


def test_pipeline_steps_can_be_called_separately(translator):
    options = {"max_new_tokens": 4, **WORDS}
    inputs = translator.preprocess("w1 w2")
    assert inputs["input_ids"].tolist() == [[5, 6, 2]]
    assert translator.postprocess(translator.forward(inputs, **options)) == translator("w1 w2", **options)


def test_call_accepts_a_generation_config(translator):
    config = GenerationConfig(max_new_tokens=3, num_beams=2, num_return_sequences=2, **WORDS)
    [[first, second]] = translator(["w1"], generation_config=config)
    assert len(first["translation_text"].split()) == len(second["translation_text"].split()) == 3


def test_assistant_model_does_not_change_translations(translator):
    options = {"max_new_tokens": 4, **WORDS}
    assert translator(TEXTS, assistant_model=translator.model, **options) == translator(TEXTS, **options)


def test_batch_on_an_accelerator_is_limited_to_one_gibibyte_of_logits():
    model = tiny_model(vocab_size=30, decoder_vocab_size=2**16, share_encoder_decoder_embeddings=False).to("meta")
    assert default_batch_size(model, rows=4, texts=1000) == 2**30 // (4 * 4 * 2**16)
    assert default_batch_size(model, rows=2**13, texts=1000) == 1


def test_model_in_training_mode_translates_without_dropout_and_stays_in_it(tokenizer):
    model = tiny_model()
    options = {"max_new_tokens": 6, **WORDS}
    translator = pipeline("translation", model=model, tokenizer=tokenizer)
    expected = translator(TEXTS, **options)
    model.train()
    assert translator(TEXTS, **options) == expected
    assert model.training


def test_interruption_leaves_the_pipeline_unchanged(translator, monkeypatch):
    options = {"max_new_tokens": 4, **WORDS}
    expected = translator(TEXTS, **options)
    generate, calls = translator.model.generate, []

    def interrupted(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return generate(*args, **kwargs)

    translator.model.train()
    with monkeypatch.context() as patched:
        patched.setattr(translator.model, "generate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            translator(TEXTS, batch_size=1, **options)
    assert translator.model.training
    assert translator(TEXTS, **options) == expected


def test_dtype_of_the_pipeline_is_applied_to_the_model(saved_model):
    translator = pipeline("translation", model=str(saved_model), dtype=torch.bfloat16)
    assert translator.model.dtype == torch.bfloat16
    [result] = translator("w1 w2", return_scores=True, max_new_tokens=4)
    assert result["score"] < 0


def test_return_tensors_gives_token_ids(translator):
    [entry] = translator("w1 w2", return_tensors=True, max_new_tokens=3)
    assert list(entry) == ["translation_token_ids"]
    assert entry["translation_token_ids"][0] == 1


def test_arguments_of_the_older_pipeline_are_accepted(translator, tokenizer):
    class ReturnType(enum.Enum):
        TENSORS, TEXT = 0, 1

    for kind in (0, ReturnType.TENSORS):
        [entry] = translator("w1 w2", return_type=kind, max_new_tokens=3)
        assert list(entry) == ["translation_token_ids"]
    [entry] = translator("w1 w2", return_type=ReturnType.TEXT, max_new_tokens=3)
    assert list(entry) == ["translation_text"]
    [entry] = translator("w1 w2", return_tensors=True, max_new_tokens=9, **WORDS)
    token = tokenizer.convert_ids_to_tokens(entry["translation_token_ids"].tolist()[3])
    [stopped] = translator("w1 w2", return_tensors=True, max_new_tokens=9, stop_sequence=token, **WORDS)
    ids = entry["translation_token_ids"].tolist()
    assert stopped["translation_token_ids"].tolist() == ids[: ids.index(ids[3], 1) + 1]


def test_generation_arguments_are_accepted_at_creation_and_in_calls(tokenizer):
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer, max_new_tokens=3)
    assert len(translator("w1", return_tensors=True)[0]["translation_token_ids"]) <= 4
    longer = translator("w1", return_tensors=True, max_new_tokens=6, min_new_tokens=6)
    assert len(longer[0]["translation_token_ids"]) == 7


def test_task_name_with_languages_selects_the_translation_pipeline(tokenizer):
    translator = pipeline("translation_de_to_en", model=tiny_model(), tokenizer=tokenizer)
    assert isinstance(translator, TranslationPipeline)
    assert translator.task == "translation_de_to_en"
    assert translator._preprocess_params == {"src_lang": "de", "tgt_lang": "en"}


def test_unknown_task_is_still_rejected(saved_model):
    with pytest.raises(KeyError, match="translate"):
        pipeline("translate", model=str(saved_model))


def test_input_other_than_text_raises_a_clear_error(translator):
    with pytest.raises(ValueError, match="str or a list of str, got int: 5"):
        translator(5)


def test_short_length_limit_of_the_model_logs_a_warning(translator, caplog):
    translator.model.generation_config.max_length = 4
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        translator("w1 w2 w3 w4")
    assert "translation ends after 4" in caplog.text


@pytest.mark.parametrize(
    "options",
    [{"max_new_tokens": 3}, {"max_length": 3}, {"generation_config": GenerationConfig(max_new_tokens=3)}],
    ids=["tokens", "length", "config"],
)
def test_short_length_limit_set_by_the_caller_logs_no_warning(tokenizer, options, caplog):
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        from_call = pipeline("translation", model=tiny_model(), tokenizer=tokenizer)("w1 w2 w3 w4", **options)
        from_pipeline = pipeline("translation", model=tiny_model(), tokenizer=tokenizer, **options)("w1 w2 w3 w4")
    assert from_call == from_pipeline
    assert "translation ends after" not in caplog.text


def test_saved_marian_folder_loads_by_its_path(tmp_path):
    model, tokenizer = family("Marian", tmp_path)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    translator = pipeline("translation", model=str(tmp_path))
    translator.save_pretrained(tmp_path / "again")
    assert "custom_pipelines" not in (tmp_path / "again" / "config.json").read_text()


def test_t5_prefix_and_parameters_come_from_the_task_name(tmp_path):
    model, tokenizer = family("T5", tmp_path)
    model.config.task_specific_params = {"translation_en_to_fr": {"prefix": "die ", "max_length": 6, "num_beams": 2}}
    translator = pipeline("translation_en_to_fr", model=model, tokenizer=tokenizer)
    expected = model.generate(**tokenizer("die katze", return_tensors="pt"), max_length=6, num_beams=2)
    got = translator("katze", return_tensors=True)[0]["translation_token_ids"]
    assert got.tolist() == expected[0].tolist()


def test_decoder_without_encoder_is_refused(tokenizer, tmp_path):
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=1)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="GPT2LMHeadModel is not an encoder-decoder"):
        pipeline("translation", model=str(tmp_path))


def test_model_that_cannot_generate_raises_a_clear_error(tokenizer):
    with pytest.raises(ValueError, match="VaswaniModel cannot generate text"):
        pipeline("translation", model=tiny_model().model, tokenizer=tokenizer)


def test_encoder_decoder_model_of_two_berts_translates(tokenizer):
    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    encoder, decoder = BertConfig(**sizes), BertConfig(**sizes, is_decoder=True, add_cross_attention=True)
    torch.manual_seed(0)
    model = EncoderDecoderModel(EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)).eval()
    model.generation_config.update(decoder_start_token_id=1, pad_token_id=0, eos_token_id=2, max_new_tokens=4)
    translator = TranslationPipeline(model, tokenizer=tokenizer)
    texts = ["w1 w2", "w3 w4 w5"]
    assert translator(texts, num_beams=2) == [translator(text, num_beams=2)[0] for text in texts]


def test_t5_without_a_task_name_uses_its_first_translation_task_with_a_warning(tmp_path):
    model, tokenizer = family("T5", tmp_path)
    model.config.task_specific_params = {
        "summarization": {"prefix": "no "},
        "translation_en_to_de": {"prefix": "die "},
        "translation_en_to_fr": {"prefix": "no "},
    }
    with pytest.warns(UserWarning, match='"translation_en_to_de"'):
        translator = pipeline("translation", model=model, tokenizer=tokenizer)
    assert translator.task == "translation_en_to_de" and translator.prefix == "die "
    assert translator._preprocess_params == {"src_lang": "en", "tgt_lang": "de"}


def test_languages_select_the_prefix_of_t5(tmp_path, monkeypatch):
    model, tokenizer = family("T5", tmp_path)
    model.config.task_specific_params = {
        "translation_en_to_de": {"prefix": "no "},
        "translation_en_to_fr": {"prefix": "die "},
    }
    languages = {"src_lang": "en", "tgt_lang": "fr"}
    assert pipeline("translation", model=model, tokenizer=tokenizer, **languages).prefix == "die "
    created, rows = [], Encoder.rows

    def record(self, *arguments, **keywords):
        created.append(self)
        return rows(self, *arguments, **keywords)

    monkeypatch.setattr(Encoder, "rows", record)
    translate(model, tokenizer, ["katze"], **languages, max_new_tokens=2)
    assert created[0].prefix == "die "
    [prefixed] = score_pairs(model, tokenizer, [("katze", "haus")], **languages)
    model.config.task_specific_params = None
    by_hand, without = score_pairs(model, tokenizer, [("die katze", "haus"), ("katze", "haus")])
    assert prefixed.score == pytest.approx(by_hand.score, abs=1e-5)
    assert prefixed.score != pytest.approx(without.score, abs=1e-5)


@pytest.mark.parametrize("task", ["translation", "translation_cn_to_ar"])
def test_pipeline_without_a_model_is_rejected(task):
    with pytest.raises(ValueError, match='There is no default model. Name one: pipeline\\("translation", model='):
        pipeline(task)


def test_progress_callback_may_be_given_at_creation(tokenizer):
    done = []
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer, progress=done.append)
    translator(["w1", "w2"], max_new_tokens=2)
    assert sum(done) == 2


def test_sampling_from_a_model_saved_with_beam_search_is_rejected_with_advice(tokenizer):
    model = tiny_model()
    model.generation_config.num_beams = 4
    translator = pipeline("translation", model=model, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="or do_sample=True with num_beams=1"):
        translator("w1", do_sample=True, n_best=8)
    assert len(translator("w1", do_sample=True, num_beams=1, n_best=8, max_new_tokens=2)) == 8


def test_warning_suggests_a_larger_limit_unless_positions_end_there(tokenizer, caplog):
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer)
    translator.model.generation_config.max_length = 20
    translator("w1 " * 30)
    assert "max_new_tokens=62" in caplog.text
    caplog.clear()
    model = tiny_model(position_type="learned", max_position_embeddings=9)
    model.generation_config.max_length = 8
    pipeline("translation", model=model, tokenizer=tokenizer)("w1 " * 8)
    assert "To allow a longer" not in caplog.text


@pytest.fixture
def german_english(tokenizer):
    return {"model": tiny_model(source_language="de", target_language="en"), "tokenizer": tokenizer}


def test_model_that_knows_its_languages_rejects_others(german_english):
    with pytest.raises(ValueError, match="^src_lang='en' and tgt_lang='de': this model translates de to en"):
        pipeline("translation_en_to_de", **german_english)
    translator = pipeline("translation", **german_english)
    with pytest.raises(ValueError, match="^src_lang='fr': this model translates de to en"):
        translator("w1", src_lang="fr")
    expected = translator("w1", max_new_tokens=3)
    assert pipeline("translation_de_to_en", **german_english)("w1", max_new_tokens=3) == expected
    assert translator("w1", src_lang="de-AT", tgt_lang="en_US", max_new_tokens=3) == expected


def test_older_folder_without_languages_accepts_any(saved_model):
    config = json.loads((saved_model / "config.json").read_text())
    assert (config.pop("source_language"), config.pop("target_language")) == (None, None)
    (saved_model / "config.json").write_text(json.dumps(config))
    translator = pipeline("translation_fr_to_pt", model=str(saved_model))
    assert translator.model.config.source_language is None
    assert translator("w1", max_new_tokens=2, src_lang="ar")


def test_languages_are_saved_with_the_model(german_english, tmp_path):
    for part in german_english.values():
        part.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="this model translates de to en"):
        pipeline("translation_en_to_fr", model=str(tmp_path))


def test_t5_rejects_a_language_pair_without_a_prefix(tmp_path):
    model, tokenizer = family("T5", tmp_path)
    parts = {"model": model, "tokenizer": tokenizer}
    model.config.task_specific_params = {
        "translation_en_to_de": {"prefix": "no "},
        "translation_en_to_fr": {"prefix": "die "},
    }
    message = "^src_lang='de' and tgt_lang='en': this model translates en to de or en to fr. Choose one"
    with pytest.raises(ValueError, match=message):
        pipeline("translation_de_to_en", **parts)
    with pytest.raises(ValueError, match="tgt_lang='ro': this model translates en to de or en to fr"):
        list(score_pairs(model, tokenizer, [("katze", "haus")], src_lang="en", tgt_lang="ro"))
    translator = pipeline("translation", **parts, tgt_lang="fr")
    assert translator.prefix == "die "
    with pytest.raises(ValueError, match="tgt_lang='de': this model translates en to fr. To use another prefix"):
        translator("katze", tgt_lang="de")
    model.config.task_specific_params = None
    assert pipeline("translation_de_to_en", **parts).prefix == ""


def test_marians_tokenizer_determines_the_languages_unless_a_text_does(tmp_path):
    model, tokenizer = family("Marian", tmp_path)
    tokenizer.source_lang, tokenizer.target_lang = "de", "en"
    with pytest.raises(ValueError, match="tgt_lang='fr': this model translates de to en"):
        pipeline("translation_de_to_fr", model=model, tokenizer=tokenizer)
    tokenizer.supported_language_codes = [">>fr<<"]
    assert pipeline("translation_de_to_fr", model=model, tokenizer=tokenizer)
    tokenizer.source_lang = "gem"  # the Germanic languages
    assert pipeline("translation_nl_to_fr", model=model, tokenizer=tokenizer)


def test_token_ids_of_an_output_at_its_length_limit_do_not_depend_on_the_batch(translator):
    options = {"num_beams": 2, "max_length_offset": 3, "max_new_tokens": None, "return_tensors": True}
    options |= {"bad_words_ids": [[2]]}  # no output ends before its limit
    texts = ["w1", "w1 w2 w3 w4 w5 w6"]
    together = [entry["translation_token_ids"].tolist() for entry in translator(texts, batch_size=2, **options)]
    alone = [translator(text, **options)[0]["translation_token_ids"].tolist() for text in texts]
    assert together == alone and [len(ids) for ids in alone] == [1 + 2 + 3, 1 + 7 + 3]


def test_stop_texts_are_read_in_the_target_vocabulary():
    pairs = [("ein hund läuft im park", "a dog runs fast"), ("der ball abcdef", "the ball abcdef")] * 3
    tokenizer = train_tokenizer(pairs, TokenizerArguments(vocab_size=60, joint=False))
    model = tiny_model(
        share_encoder_decoder_embeddings=False,
        vocab_size=len(tokenizer),
        decoder_vocab_size=tokenizer.target_vocab_size,
    )
    translator = pipeline("translation", model=model, tokenizer=tokenizer, max_new_tokens=8, num_beams=1)
    settings = {"return_tensors": True, "suppress_tokens": [0, 1, 2, 3]}
    [entry] = translator("ein hund läuft", **settings)
    ids = entry["translation_token_ids"].tolist()
    token = tokenizer.backends["target"].id_to_token(ids[1])
    assert tokenizer.convert_tokens_to_ids(token) != ids[1]  # the source has it under another id
    for stop in ({"stop_sequence": token.strip("▁")}, {"stop_strings": [token.strip("▁")], "tokenizer": tokenizer}):
        [entry] = translator("ein hund läuft", **settings, **stop)
        assert entry["translation_token_ids"].tolist() == ids[:2]


def test_tokenizer_without_tokens_of_the_models_own_gives_a_warning(saved_model, tokenizer, tmp_path, recwarn):
    model = AutoModelForSeq2SeqLM.from_pretrained(saved_model)
    tokenizer.add_tokens(["w99"])
    tokenizer.save_pretrained(tmp_path / "more")  # as for a model that is to learn them
    model.resize_token_embeddings(len(tokenizer))
    pipeline("translation", model=model, tokenizer=AutoTokenizer.from_pretrained(tmp_path / "more"))
    assert not [warning for warning in recwarn if "tokenizer is not" in str(warning.message)]
    other = train_tokenizer([("ab", "ba")] * 9, TokenizerArguments(vocab_size=16))
    with pytest.warns(UserWarning, match=f"The tokenizer is not the model's: the tokens in {saved_model}"):
        pipeline("translation", model=model, tokenizer=other)


def test_batches_are_padded_on_the_right_whatever_the_tokenizer_says(tokenizer):
    tokenizer.padding_side = "left"
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer)
    batch = translator.collate(translator.translator().encoder.rows(["w1 w2", "w1"]))
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]] and tokenizer.padding_side == "left"


@pytest.mark.parametrize("task", ["translation", "translation_de_to_en"])
def test_missing_folder_is_named_and_not_only_the_hub(saved_model, monkeypatch, task):
    monkeypatch.chdir(saved_model.parent.parent)
    name = f"{saved_model.parent.name}/savd"
    message = rf"{name} is not a local folder \(did you mean {saved_model.parent.name}/saved\?\), and cannot be loaded"
    with pytest.raises(OSError, match=message):
        pipeline(task, model=name)
