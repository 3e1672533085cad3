"""The model of the installed package: faster than the one that travels with a checkpoint, and saved as that one."""

import copy
import importlib
import inspect
import pickle
import pkgutil

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

import hf_vaswani
from hf_vaswani import VaswaniForConditionalGeneration, VaswaniModel, core
from hf_vaswani.core import modeling_vaswani

from ..conftest import tiny_config, tiny_model


@pytest.fixture
def plain_model():
    """A model of the classes that travel, with the weights of `tiny_model()`."""
    model = modeling_vaswani.VaswaniForConditionalGeneration(tiny_config()).eval()
    model.load_state_dict(tiny_model().state_dict())
    return model


def test_classes_that_travel_are_made_of_nothing_else_of_the_package():
    hf_vaswani.load()
    names = [f"{core.__name__}.{module.name}" for module in pkgutil.iter_modules(core.__path__)]
    classes = {cls for name in names for cls in vars(importlib.import_module(name)).values() if inspect.isclass(cls)}
    classes = {base for cls in classes if cls.__module__ in names for base in cls.__mro__}
    functions = [getattr(value, "__func__", value) for cls in classes for value in vars(cls).values()]
    modules = {value.__module__ for value in [*classes, *filter(inspect.isfunction, functions)]}
    assert {module for module in modules if module.startswith(hf_vaswani.__name__)} <= set(names)


def test_auto_class_makes_a_subclass_of_the_model_that_travels():
    model = AutoModelForSeq2SeqLM.from_config(tiny_config())
    assert type(model) is VaswaniForConditionalGeneration
    assert isinstance(model, modeling_vaswani.VaswaniForConditionalGeneration)
    assert type(model.model) is VaswaniModel


def test_parts_have_the_names_of_those_that_travel(plain_model):
    fast = [(name, type(module).__name__) for name, module in tiny_model().named_modules()]
    assert fast == [(name, type(module).__name__) for name, module in plain_model.named_modules()]


def test_model_is_saved_as_the_one_that_travels(plain_model, tmp_path):
    folders = tmp_path / "fast", tmp_path / "plain"
    for model, folder in zip((tiny_model(), plain_model), folders):
        model.save_pretrained(folder)
    fast, plain = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert fast == plain


def test_model_computes_as_the_one_that_travels(plain_model):
    model, source = tiny_model(), torch.tensor([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]])
    inputs = {"input_ids": source, "attention_mask": source.ne(0).long()}
    expected = plain_model(**inputs, labels=source)
    output = model(**inputs, labels=source)
    torch.testing.assert_close(output.logits, expected.logits)
    torch.testing.assert_close(output.loss, expected.loss)
    search = {"num_beams": 3, "max_new_tokens": 8}
    assert torch.equal(model.generate(**inputs, **search), plain_model.generate(**inputs, **search))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_have_the_same_class(copied):
    model = copied(tiny_model())
    assert type(model) is VaswaniForConditionalGeneration
    assert model.decoder_step() is not None
