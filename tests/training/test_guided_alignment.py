"""Runs with guided alignment."""

import pytest

from hf_vaswani import VaswaniForConditionalGeneration
from hf_vaswani.errors import InputError
from hf_vaswani.training.train import train
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


def test_text_that_is_tokenized_again_is_an_error(recipe):
    with pytest.raises(InputError) as error:
        recipe("--guided_alignment=0.05", "--bpe_dropout=0.1")
    assert str(error.value) == (
        "training.guided_alignment=0.05 needs text that is tokenized once, but tokenizer.bpe_dropout=0.1 tokenizes it "
        "again in each epoch: choose one"
    )
