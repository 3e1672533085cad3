"""A tiny model for the page, with words as tokens, so that the output for a text is predictable."""

import pytest
import torch

from hf_vaswani.app.models import LoadedModel, ModelCache

from ..conftest import tiny_model


@pytest.fixture
def model_folder(tmp_path, tokenizer):
    """The folder of a model that gives short, different translations of different texts."""
    model = tiny_model()
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.4)
    model.generation_config.max_new_tokens = 6
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def shelf(model_folder) -> ModelCache:
    return ModelCache([str(model_folder)])


@pytest.fixture
def loaded(shelf, model_folder) -> LoadedModel:
    return shelf.open(str(model_folder))
