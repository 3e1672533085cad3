"""LoRA adapters (Hu et al. 2021) with PEFT. Imported for runs that train one.

LoRA adds to a weight `(out_features, in_features)` the product of two narrow matrices, `(out_features, r)` and
`(r, in_features)`, and trains only these. The first is initialized to 0, so that a run begins with its base model.
"""

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import save_file
from torch import nn
from transformers import set_seed
from transformers.utils import ADAPTER_SAFE_WEIGHTS_NAME

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...data.tokenizers.tokenizer import has_tokenizer
from ...errors import InputError
from ...generation.adapters import BASE_DIGEST, matrices_digest, values_digest
from ...models.model_types import is_own_model, keeps_its_class
from ...runtime.imports import import_extra
from ..optimization.weights import weights
from ..recipe.arguments import ALL_LINEAR, PeftArguments
from ..recipe.recipe import Recipe
from .tokenizer_and_model import named

if TYPE_CHECKING:
    from peft import PeftModel

# The layers that PEFT's LoRA supports, and those that can be trained whole.
ADAPTED_LAYERS, SAVED_LAYERS = (nn.Linear, nn.Embedding), (nn.Embedding, nn.LayerNorm, nn.Linear)


def with_adapter(model: VaswaniForConditionalGeneration, recipe: Recipe) -> "PeftModel":
    """Add an adapter to a model, which does not yet change its output; only the adapter is trained.

    Args:
        model: the model that the recipe starts from. It is changed in place, and becomes the `get_base_model()` of the
            returned model.

    Raises:
        InputError: if the adapter does not fit the model, or could not be loaded or merged afterwards.
    """
    peft = named("peft", lambda: import_extra("peft"))
    arguments, base = recipe.peft, recipe.training.start_from
    if errors := module_errors(model, arguments) + base_errors(arguments, base):
        raise InputError.of(errors)
    config = peft.LoraConfig(
        task_type=peft.TaskType.SEQ_2_SEQ_LM,
        r=arguments.r,
        lora_alpha=arguments.lora_alpha,
        lora_dropout=arguments.lora_dropout,
        target_modules=arguments.targets,
        bias=arguments.bias,
        use_rslora=arguments.use_rslora,
        use_dora=arguments.use_dora,
        modules_to_save=arguments.modules_to_save or None,
    )
    # The adapter depends only on the seed, not on how many random numbers the model has drawn.
    set_seed(recipe.training.seed)
    with warnings.catch_warnings():
        # These warn about tied embeddings, which are refused where they matter.
        warnings.simplefilter("ignore")
        adapted = peft.get_peft_model(model, config)
    # Only now, since PEFT replaces it by the path as it was given. In another working directory, a relative path would
    # be wrong, or the name of somebody else's model on the Hub.
    config.base_model_name_or_path = os.path.abspath(base) if Path(base).exists() else base
    return adapted


def merged(adapted: "PeftModel") -> VaswaniForConditionalGeneration:
    """Merge the adapter into the model's weights, and return an ordinary model."""
    model = adapted.merge_and_unload()
    # Some versions of PEFT leave their config behind, which would mark the model as one with an adapter.
    vars(model).pop("peft_config", None)
    return model


def save_adapter(adapted: "PeftModel", folder: Path) -> None:
    """Write an adapter, and the generation config of its model, to a folder.

    Raises:
        OSError, SafetensorError: if they cannot be written.
    """
    peft = import_extra("peft")
    config = adapted.peft_config["default"]
    config.inference_mode = True
    config.save_pretrained(folder)
    # Trained embeddings are among the weights anyway; PEFT would add them whenever they have an adapter.
    values = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
    contiguous = {name: value.detach().cpu().contiguous() for name, value in values.items()}
    # So that it is not loaded on another base.
    digest = matrices_digest(value for value in adapted.parameters() if not value.requires_grad)
    save_file(contiguous, folder / ADAPTER_SAFE_WEIGHTS_NAME, metadata={"format": "pt", BASE_DIGEST: digest or ""})
    generation = adapted.get_base_model().generation_config
    # With this flag set, transformers would drop unknown settings on loading.
    generation._from_model_config = False
    generation.save_pretrained(folder)


def base_digest(model: nn.Module) -> str:
    """The digest that identifies the weights of a base model, without its adapter."""
    trained = weights(model)
    return values_digest(parameter for name, parameter in model.named_parameters() if name not in trained)


def module_errors(model: nn.Module, arguments: PeftArguments) -> list[str]:
    """What is wrong with the names of the modules to adapt or to train whole."""
    targets = [] if arguments.targets == ALL_LINEAR else arguments.target_modules
    keys = {
        "target_modules": (targets, ADAPTED_LAYERS, f", or {ALL_LINEAR} alone" if targets else ""),
        "modules_to_save": (arguments.modules_to_save, SAVED_LAYERS, ""),
    }
    errors, chosen = [], {}
    if not arguments.target_modules:
        errors.append(f"peft.target_modules is empty: list modules, or {ALL_LINEAR}")
    for key, (names, kinds, also) in keys.items():
        layers = {name: module for name, module in model.named_modules() if isinstance(module, kinds)}
        known = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in layers))
        for name in names:
            found = [layer for layer in layers if is_named(layer, name)]
            chosen |= {layer: name for layer in found}
            if not found:
                errors.append(f"peft.{key}: the model has no suitable module {name!r}. Choose from {known}{also}")
    errors += [
        f"peft.modules_to_save: {name!r} is also in peft.target_modules: choose one"
        for name in arguments.modules_to_save
        if name in targets
    ]
    return errors + (tying_errors(model, chosen) if arguments.merge else [])


def tying_errors(model: nn.Module, chosen: dict[str, str]) -> list[str]:
    """Errors for modules whose matrix is shared with others, which merging would change, too.

    Args:
        chosen: path of each module with an adapter or a copy of its own → the recipe's name for it.
    """
    paths: dict[int, list[str]] = {}
    for path, parameter in model.named_parameters(remove_duplicate=False):
        paths.setdefault(id(parameter), []).append(path.removesuffix(".weight"))
    tied = {path for shared in paths.values() if len(shared) > 1 for path in shared}
    return [
        f"peft.merge: {name!r} has a matrix that is tied to others, which merging would also change. Set it to false, "
        "or remove the module"
        for name in dict.fromkeys(name for path, name in chosen.items() if path in tied)
    ]


def base_errors(arguments: PeftArguments, base: str) -> list[str]:
    """Why an adapter could not be loaded after the run."""
    if arguments.merge:
        return []
    errors = []
    if arguments.use_dora:
        errors.append("peft.use_dora needs peft.merge: true, since transformers cannot load adapters of this kind")
    if not (is_own_model(base) or keeps_its_class(base)):
        errors.append(
            f"peft: the adapter would be loaded on training.start_from={base}, which is another system's model. "
            "Convert it with hf-vaswani import and start from the result, or set peft.merge: true"
        )
    elif Path(base).exists() and not has_tokenizer(Path(base)):
        errors.append(
            f"peft: the adapter would be loaded on training.start_from={base}, which has no tokenizer. Copy one "
            "into that folder, or set peft.merge: true"
        )
    return errors


def is_named(path: str, name: str) -> bool:
    """Whether PEFT applies a name to the module at a path: the name must be the end of the path."""
    return path == name or path.endswith(f".{name}")
