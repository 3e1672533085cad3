"""Numbers out of bounds are errors that say what is allowed, before any work."""

import numpy as np
import pytest

from hf_vaswani.configuration.keys import types_of
from hf_vaswani.core.configuration_vaswani import RANGES, VaswaniConfig
from hf_vaswani.data.batches import mixed_rows
from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe.model_arguments import ModelArguments
from hf_vaswani.training.recipe.recipe import SECTIONS
from hf_vaswani.training.train import train

from ...conftest import tiny_config


def is_number(key) -> bool:
    return bool({int, float} & set(types_of(key)))


NUMBERS = [
    (section, name)
    for section, arguments in SECTIONS.items()
    for name, key in arguments.model_fields.items()
    if is_number(key) and section != "model"
]


@pytest.mark.parametrize(("section", "name"), NUMBERS, ids=map(".".join, NUMBERS))
def test_every_number_of_a_recipe_has_bounds_that_include_its_default(section, name):
    arguments = SECTIONS[section]
    default = arguments.model_fields[name].default
    assert default is None or arguments.checked({name: default}) == ({name: default}, {})
    for absurd in (10**18, -(10**18), float("nan")):
        [error] = arguments.checked({name: absurd})[1].values()
        shown = float(absurd) if float in types_of(arguments.model_fields[name]) else absurd
        assert error.startswith(f"{section}.{name} must be ") and error.endswith(f", got {shown}")


def test_every_integer_of_the_architecture_has_a_range():
    numbers = {name for name, key in ModelArguments.model_fields.items() if int in types_of(key)}
    assert numbers | {"vocab_size", "decoder_vocab_size"} == RANGES.keys()
    for name, (_, most) in RANGES.items():
        with pytest.raises(ValueError, match=f"{name} must be at most {most:,}, got {10**18}"):
            tiny_config(**{name: 10**18})
    with pytest.raises(ValueError, match="layer_norm_eps must be above 0 and at most 1, got 1e[+]300"):
        VaswaniConfig(layer_norm_eps=1e300)
    with pytest.raises(ValueError, match="qkv_init_gain must be above 0 and at most 1000"):
        VaswaniConfig(qkv_init_gain=1e300)


def test_absurd_numbers_of_a_recipe_are_rejected_together(recipe):
    with pytest.raises(InputError) as error:
        recipe("--cpu_threads=10000000", "--vocab_size=1000000000000", "--num_beams=100000", "--seed=-1")
    assert str(error.value).splitlines() == [
        "tokenizer.vocab_size must be at most 10,000,000, got 1000000000000",
        "training.seed must be in [0, 4294967296), got -1",
        "training.cpu_threads must be at most 1,024, got 10000000",
        "generation.num_beams must be at most 1,000, got 100000",
    ]


def test_source_weights_that_make_an_endless_epoch_are_rejected(recipe):
    origins = np.array([0] * 30 + [1] * 10)
    with pytest.raises(InputError, match=r"1e-09, 1e\+09 of training sources with 30, 10 pairs make an epoch of 30,"):
        mixed_rows(origins, [1e-9, 1e9], np.random.default_rng(0))
    entry = "{source: a, target: b, weight: %s}"
    with pytest.raises(InputError, match=r"weight must be above 0 and at most 1,000,000,000, got 1e\+300"):
        train(recipe("--train_source=null", "--train_target=null", f"--train=[{entry % '1e300'}, {entry % 1}]"))
