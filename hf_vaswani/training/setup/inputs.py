"""The models, tokenizers and files of pairs that a run is made from, with their digests."""

from pathlib import Path

from ...data.sources.text_source import file_digest
from ...provenance import Input, Provenance, make_input
from ..recipe.arguments import OWN, REVERSED
from ..recipe.recipe import Recipe


def model_inputs(recipe: Recipe) -> list[tuple[str, str]]:
    """The models and tokenizers that the weights of a run depend on, each with the key that names it."""
    training = recipe.training
    named = [("training.start_from", training.start_from), ("tokenizer.path", recipe.tokenizer.path)]
    named += [("training.distill_from", name) for name in training.teachers]
    return [(key, name) for key, name in named if name]


def local_digests(recipe: Recipe) -> dict[str, str]:
    """The digests of a run's models and tokenizers that are in folders, by the key that names them."""
    from ...translation.translator_settings import content_digest

    found: dict[str, list[str]] = {}
    for key, name in model_inputs(recipe):
        if Path(name).exists():
            found.setdefault(key, []).append(content_digest(name))
    return {key: " ".join(digests) for key, digests in found.items()}


def run_inputs(recipe: Recipe) -> list[Input]:
    """Everything that a run is made from besides its own text, with provenance."""
    from ...translation.translator_settings import content_digest

    found = [make_input(key, name, content_digest(name)) for key, name in model_inputs(recipe)]
    pairs = [name for name in recipe.data.text or () if name not in (OWN, REVERSED)]
    found += [make_input("data.text", name, file_digest(name)) for name in pairs]
    return Provenance(command="train", inputs=found).without_repetition().inputs
