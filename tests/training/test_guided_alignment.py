"""Runs with guided alignment."""

import pytest

from hf_vaswani import VaswaniForConditionalGeneration
from hf_vaswani.text.markers import KEEPS, with_markers
from hf_vaswani.training.build import build
from hf_vaswani.training.check import check
from hf_vaswani.training.train import processes_of, train
from hf_vaswani.training.trainer import train_with_trainer

from .helpers import losses, same_weights

OPTIONS = (
    "--guided_alignment=0.5", "--gradient_accumulation_steps=2", "--max_tokens=60", "--save_steps=3",
    "--average_last=3", "--logging_steps=2",
)  # fmt: skip


def test_stopped_run_resumes_bit_for_bit_and_the_trainer_takes_the_same_steps(recipe):
    whole = train(recipe(*OPTIONS, output="whole")).folder
    train_with_trainer(recipe(*OPTIONS, "--max_steps=5", output="parts"))
    parts = train_with_trainer(recipe(*OPTIONS, output="parts")).folder
    assert losses(parts) == losses(whole)
    assert same_weights(parts, whole)
    config = VaswaniForConditionalGeneration.from_pretrained(whole).config
    assert config.alignment_heads == [[-(-5 * config.decoder_layers // 6) - 1, 0]]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--bpe_dropout=0.2",), marks=pytest.mark.slow),
        pytest.param(("--streaming=true", "--max_length=60"), marks=pytest.mark.slow),
        ("--augmentation.terms=0.5", "--augmentation.placeholders=0.5", "--vocab_size=80"),
    ],
)
@pytest.mark.slow
def test_stopped_run_whose_text_is_tokenized_again_in_each_epoch_resumes_bit_for_bit(recipe, options):
    options = (*options, *OPTIONS, "--max_tokens=200")
    whole = train(recipe(*options, output="whole")).folder
    train(recipe(*options, "--max_steps=5", output="parts"))
    parts = train(recipe(*options, output="parts")).folder
    assert losses(parts) == losses(whole)
    assert same_weights(parts, whole)


def test_placeholders_are_aligned_with_themselves(recipe):
    options = recipe(*OPTIONS, "--augmentation.placeholders=1", "--vocab_size=80")
    with processes_of(options) as processes:
        setup = build(check(options, processes))
    source, target = (f"a {KEEPS[one]} b {KEEPS[two]} c" for one, two in ((0, 1), (1, 0)))
    marked = with_markers(setup.tokenizer)
    ids = marked(source)["input_ids"], marked(text_target=target)["input_ids"]
    links = setup.aligner(*ids)
    for keep in marked.convert_tokens_to_ids(list(KEEPS[:2])):
        assert links[ids[1].index(keep)] == ids[0].index(keep)
