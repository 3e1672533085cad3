"""Runs whose training pairs are changed at random."""

import pytest
from transformers import pipeline

from hf_vaswani.data.tokenizers.tokenizer import load_tokenizer
from hf_vaswani.errors import InputError
from hf_vaswani.text.markers import has_keep_tokens, has_term_tokens
from hf_vaswani.training.train import train

from .helpers import losses, same_weights

ALL = [f"--augmentation.{name}=0.5" for name in ("uppercase", "no_punctuation", "typos", "terms", "placeholders")]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), marks=pytest.mark.slow),
        ("--streaming=true", "--max_length=60", "--joint=false", "--bpe_dropout=0.2"),
    ],
)
def test_interrupted_run_equals_an_uninterrupted_one_bit_for_bit(recipe, options):
    options = (*ALL, "--max_tokens=200", "--vocab_size=80", *options)
    whole = train(recipe(*options, output="whole"))
    for limit in (5, 12):
        parts = train(recipe(*options, f"--max_steps={limit}", output="parts"))
    assert losses(parts.folder) == losses(whole.folder)
    assert same_weights(parts.folder, whole.folder)
    tokenizer = load_tokenizer(str(whole.folder))
    assert has_keep_tokens(tokenizer) and has_term_tokens(tokenizer)


@pytest.mark.slow
def test_text_of_validation_is_not_changed(recipe):
    plain = train(recipe("--learning_rate=1e-9", "--eval_sentences=0", output="plain"))
    noisy = train(recipe("--learning_rate=1e-9", "--eval_sentences=0", "--augmentation.typos=1", output="noisy"))
    assert noisy.validation_loss == pytest.approx(plain.validation_loss, abs=1e-4)


@pytest.mark.slow
def test_pairs_of_a_run_are_changed(recipe):
    runs = [train(recipe(*options, output=str(len(options)))) for options in ((), ("--augmentation.placeholders=1",))]
    assert losses(runs[0].folder) != losses(runs[1].folder)


@pytest.mark.slow
def test_model_without_the_tokens_cannot_learn_terms_or_placeholders(recipe):
    start = train(recipe(output="start")).folder
    for key, tokens in (("terms", "<term> to </term>"), ("placeholders", "<keep_0> to <keep_9>")):
        with pytest.raises(InputError) as error:
            train(recipe(f"--start_from={start}", f"--augmentation.{key}=0.5", output="next"))
        assert str(error.value) == (
            f"augmentation.{key} needs the tokens {tokens}, which the tokenizer of training.start_from={start} does "
            f"not have. Learn a new tokenizer, or use that of a model that was trained with augmentation.{key}"
        )
    train(recipe(f"--start_from={start}", "--augmentation.typos=0.5", output="next"))


def test_glossary_is_checked_first(recipe, write_lines, tmp_path):
    path = write_lines("glossary.tsv", ["a\tb", "c"])
    with pytest.raises(InputError, match="^augmentation.glossary: .*line 2: there is no target term"):
        train(recipe("--augmentation.terms=0.5", f"--augmentation.glossary={path}"))
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="has no effect without augmentation.terms: remove it"):
        recipe(f"--augmentation.glossary={path}")


@pytest.mark.parametrize("options", [(), ("--bpe_dropout=0.1",)])
def test_model_that_learned_capitals_reads_them_as_lower_case(recipe, options):
    folder = str(train(recipe("--augmentation.uppercase=0.3", *options)).folder)
    translator = pipeline("translation", model=folder, return_scores=True)
    assert translator("A B C D") == translator("a b c d") != translator("a B c d")


def test_another_glossary_is_another_run(recipe, write_lines):
    options = ["--augmentation.terms=0.5", f"--augmentation.glossary={write_lines('glossary.tsv', ['a	b'])}"]
    train(recipe(*options))
    write_lines("glossary.tsv", ["a\tc"])
    with pytest.raises(InputError, match="the content of augmentation.glossary has changed"):
        train(recipe(*options))


def test_augmentation_excludes_soft_labels_which_need_the_same_text_in_each_epoch(recipe):
    with pytest.raises(InputError, match="augmentation.typos=0.1 tokenizes it again in each epoch"):
        recipe("--distill_from=teacher", "--distill_top_k=8", "--tokenizer.path=teacher", "--augmentation.typos=0.1")


def test_vocabulary_needs_room_for_the_tokens(recipe):
    with pytest.raises(InputError, match="tokenizer.vocab_size=20 has no room for the 12 tokens of augmentation"):
        recipe("--augmentation.terms=0.1", "--augmentation.placeholders=0.1", "--vocab_size=20")
