"""The final weights: a mean of checkpoints (section 6.1) or of finished models, or those of a single checkpoint."""

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from transformers import GenerationConfig, PreTrainedTokenizerBase

from ...core.configuration_vaswani import VaswaniConfig
from ...data.prepared import tokenizer_digest
from ...data.tokenizers.tokenizer import has_tokenizer, load_tokenizer, save_tokenizer
from ...errors import InputError, listed, reason
from ...files import collect_errors
from ...generation.fast_model import VaswaniForConditionalGeneration
from ...generation.model_checks import vocabulary_error
from ...ledger import Provenance, is_finished, make_input, new_folder, read_provenance
from ...models.families import FAMILIES
from ...models.model_files import check_settings, finish_hint, model_kind
from ...models.model_loading import load_model
from ...records.run_report import ComparedWeights, FinalWeights
from ..optimization.weights import Tensors, average_weights, set_weights, weights
from ..recipe.arguments import TrainingArguments
from .artifacts import ARCHITECTURE, BEST, CHECKPOINTS, RECIPE_FILE, TOKENIZER, is_checkpoint, read_stored
from .best_weights import ranked
from .checkpoint import checkpoint_folders, find_damage, step_of, weights_file

# Fields of a config that decide what weights mean, without changing their shapes.
MEANINGS = (
    "encoder_attention_heads", "decoder_attention_heads", "activation_function", "norm_position", "layer_norm_eps",
    "position_type", "sinusoid_layout", "sinusoid_exponent", "sinusoid_offset", "positions_skip_padding",
    "scale_embedding", "decoder_start_embedding"
)  # fmt: skip
LANGUAGES = ("source_language", "target_language", "language_pairs")
# Cosine similarity of the matrices of two models: near 0.01 from two seeds, but above 0.2 from the same start.
RELATED = 0.1

ATTEMPTS = 5  # to read checkpoints before a running training deletes them

ALIKE = "Only models of the same architecture can be averaged."


@dataclass(frozen=True)
class Member:
    """A folder with weights, and the folders of the config and tokenizer that belong to them."""

    path: Path
    config: Path
    tokenizer: Path

    @property
    def is_model(self) -> bool:
        """Whether it is a finished model rather than a checkpoint."""
        return self.path == self.config

    def read(self) -> Tensors:
        """Read the weights by name, tied ones once.

        Raises:
            InputError: if they cannot be read.
        """
        if self.is_model:
            return weights(load_model(VaswaniForConditionalGeneration, str(self.path)))
        if damage := find_damage(self.path):
            raise InputError(f"{self.path} is damaged ({damage}). Leave it out.")
        return load_file(weights_file(self.path))


def average(sources: list[Path], output: Path, last: int | None = None, best: int | None = None) -> list[Path]:
    """Average weights and write them to a folder that is ready for `from_pretrained` and `pipeline`, with provenance.

    A folder that holds the very same mean already is left as it is. If a running training deletes a checkpoint
    meanwhile, the mean is that of the newer ones.

    Args:
        sources: folders of runs, of checkpoints (`…/checkpoints/update-…`, `…/best/update-…`) or of models.
        output: folder to create; it may exist only if it is empty.
        last, best: how many of the last, or of the best, checkpoints of each run to average; by default all
            checkpoints that are left.

    Returns:
        The folders whose weights were averaged.

    Raises:
        InputError: if a source is of another kind, or has weights of other names or shapes, or if the output is
            anything else.
    """
    for _ in range(ATTEMPTS):
        members = open_members(sources, last, best)
        try:
            return _average(members, _provenance(sources, members, last, best), output)
        except (InputError, OSError):
            if all(member.path.exists() for member in members):
                raise
    raise InputError(
        f"{listed(map(str, sources))}: the run deletes its checkpoints while they are read. Wait until it has "
        "finished, or average fewer with --last."
    )


def _average(members: list[Member], made: Provenance, output: Path) -> list[Path]:
    """Average members into a folder; arguments and result are those of [`average`], and `made` is its provenance."""
    began = time.monotonic()
    if read_provenance(output) and is_finished(output, made, "Choose another folder, or delete this one."):
        return [member.path for member in members]
    tokenizer = _common_tokenizer(members)
    model = VaswaniForConditionalGeneration(_config(members[0].config))
    if (members[0].config / "generation_config.json").exists():
        model.generation_config = GenerationConfig.from_pretrained(members[0].config)
    if tokenizer is not None and (error := vocabulary_error(model, tokenizer)):
        raise InputError(f"{members[0].tokenizer}: {error}. Use the tokenizer and the model of the same run.")
    with new_folder(output) as folder:
        set_weights(model, average_weights(_alike(members)))
        model.save_pretrained(folder)
        if tokenizer is not None:
            save_tokenizer(tokenizer, folder)
        made.model_copy(update={"seconds": time.monotonic() - began}).write(folder)
    return [member.path for member in members]


def _provenance(sources: list[Path], members: list[Member], last: int | None, best: int | None) -> Provenance:
    """What a mean is made from: for each source, the weights that are averaged, as one input."""
    from ...models.model_digest import content_digest

    inputs = []
    for source in sources:
        own = [member for member in members if member.path.is_relative_to(source)]
        digest = " ".join(content_digest(str(member.path)) for member in own)
        whole = own[0].path if own[0].is_model else own[0].config.parent
        inputs.append(make_input("model", source, digest).model_copy(update={"made": read_provenance(whole)}))
    settings = {name: value for name, value in (("last", last), ("best", best)) if value}
    return Provenance(command="average", settings=settings, inputs=inputs)


def open_members(sources: list[Path], last: int | None = None, best: int | None = None) -> list[Member]:
    """What is averaged, checked as far as possible without reading weights; arguments as in [`average`].

    Raises:
        InputError: all errors at once: of each source, or of sources that do not belong together.
    """
    errors: list[str] = []
    found = [collect_errors(errors, lambda source=source: find_members(source, last, best)) for source in sources]
    members = [member for of_source in found for member in of_source or []]
    if members:
        collect_errors(errors, lambda: _common_tokenizer(members))
        collect_errors(errors, lambda: _check_meanings(members))
    if errors:
        raise InputError.of(errors)
    return members


def find_members(source: Path, last: int | None, best: int | None) -> list[Member]:
    """The members that a folder contributes to the mean.

    Raises:
        InputError: if it holds no weights, or fewer than requested.
    """
    has_model = (source / "config.json").exists()
    # Without checkpoints, which may have been deleted to save space, a run stands for its model.
    is_model = has_model and not (last or best or checkpoint_folders(source / CHECKPOINTS))
    if (source / CHECKPOINTS).is_dir() and not is_model:
        kept = ranked(source / BEST) if best else checkpoint_folders(source / CHECKPOINTS)
        number = best or last or len(kept)
        if not kept or number > len(kept):
            kind = "best weights" if best else "checkpoints"
            raise InputError(f"{source} has too few {kind}: {number or 1} needed, {len(kept)} found.")
        chosen = kept[:number] if best else kept[-number:]
        return [_checkpoint_member(path, source) for path in chosen]
    if is_checkpoint(source):
        return [_checkpoint_member(source, Path(os.path.abspath(source)).parent.parent)]
    if has_model:
        kind = model_kind(source)
        if kind != VaswaniConfig.model_type:
            raise InputError(
                f"{source} is a {kind!r} model, not a {VaswaniConfig.model_type!r} model. If its type is supported, "
                "convert it with hf-vaswani import."
            )
        check_settings(source)
        return [Member(source, config=source, tokenizer=source)]
    raise InputError(f"{source} is not the folder of a run, a checkpoint or a model.")


def _checkpoint_member(path: Path, run: Path) -> Member:
    if (run / RECIPE_FILE).exists() and read_stored(run / RECIPE_FILE).get("peft", {}).get("r"):
        raise InputError(
            f"{path} contains an adapter, not a model. The run itself averages its adapters (training.average), and "
            "with peft.merge: true it saves a full model."
        )
    if not (run / ARCHITECTURE / "config.json").exists():
        raise InputError(f"{path}: {run / ARCHITECTURE} is missing: it describes these weights' model.")
    if (kind := model_kind(run / ARCHITECTURE)) in FAMILIES:
        raise InputError(f"{path} is of a {kind!r} model, which only its run can average: {finish_hint(path)}")
    return Member(path, config=run / ARCHITECTURE, tokenizer=run / TOKENIZER)


def _value(config: VaswaniConfig, name: str) -> Any:
    value = getattr(config, name)
    return sorted(value) if name == "language_pairs" and value else value


def _check_meanings(members: list[Member]) -> None:
    """Check that the same weights would mean the same in all members.

    Raises:
        InputError: if they would not, or if a config cannot be read.
    """
    first, *others = {member.config: member for member in members}.values()
    config, errors = _config(first.config), []
    for member in others:
        other = _config(member.config)
        differ = [
            f"{name} is {getattr(other, name)!r} and {getattr(config, name)!r}"
            for name in (*MEANINGS, *LANGUAGES)
            if _value(other, name) != _value(config, name)
            and not (name in LANGUAGES and None in (getattr(other, name), getattr(config, name)))
        ]
        if differ:
            errors.append(f"{member.path} and {first.path} differ: {'; '.join(differ)}. {ALIKE}")
    if errors:
        raise InputError.of(errors)


def _config(folder: Path) -> VaswaniConfig:
    check_settings(folder)
    try:
        return VaswaniConfig.from_pretrained(folder)
    except Exception as error:  # a config with wrong types raises various exceptions
        raise InputError(f"{folder} cannot be read: {reason(error)}") from None


def _alike(members: list[Member]) -> Iterator[Tensors]:
    """Yield the weights of each member, which must have the names and shapes of the first's, and be related to them.

    Raises:
        InputError: if they do not.
    """
    first, of_first = None, {}
    for member in members:
        values = member.read()
        shapes = {name: tuple(value.shape) for name, value in values.items()}
        first, of_first = first or shapes, of_first or values
        different = sorted(name for name in first.keys() | shapes.keys() if first.get(name) != shapes.get(name))
        if different:
            raise InputError(
                f"{member.path} has different weights than {members[0].path}: {different[0]} is "
                f"{shapes.get(different[0], 'missing')} and {first.get(different[0], 'missing')}. {ALIKE}"
            )
        if (similarity := _similarity(of_first, values)) < RELATED:
            raise InputError(
                f"{member.path} and {members[0].path} are unrelated (the cosine similarity of their weights is "
                f"{similarity:.2f}), and their mean cannot translate. Average checkpoints of one run, or "
                "fine-tunings of one model. hf-vaswani translate MODEL --ensemble MODEL combines different models."
            )
        yield values


def _similarity(one: Tensors, other: Tensors) -> float:
    """The cosine similarity of two models' matrices; vectors are left out, since biases and gains are alike in all."""
    names = [name for name, value in one.items() if value.dim() > 1]
    dot = lambda a, b: sum((a[name].double() * b[name].double()).sum().item() for name in names)  # noqa: E731
    norms = dot(one, one) * dot(other, other)
    return dot(one, other) / norms**0.5 if norms else 1.0


def _common_tokenizer(members: list[Member]) -> PreTrainedTokenizerBase | None:
    """The tokenizer that all members with a tokenizer share; `None` if no member has one.

    Raises:
        InputError: if two tokenizers differ, so that the same embedding would stand for different tokens.
    """
    folders = [folder for folder in dict.fromkeys(member.tokenizer for member in members) if has_tokenizer(folder)]
    tokenizers = [load_tokenizer(str(folder)) for folder in folders]
    digests = [tokenizer_digest(tokenizer) for tokenizer in tokenizers]
    for folder, digest in zip(folders, digests):
        if digest != digests[0]:
            raise InputError(
                f"The tokenizer in {folder} differs from the one in {folders[0]}. Only models with the same "
                "vocabulary can be averaged."
            )
    return tokenizers[0] if tokenizers else None


@dataclass(frozen=True)
class Candidate:
    """Weights that may become the final model: those of a checkpoint, or the mean of several.

    Attributes:
        name: a description in words.
        paths: the folders of the checkpoints or best weights.
    """

    name: str
    paths: tuple[Path, ...]

    @property
    def steps(self) -> list[int]:
        """The steps after which the weights were stored."""
        return [step_of(path) for path in self.paths]

    @property
    def files(self) -> list[Path]:
        """The files with the weights for translation."""
        return [weights_file(path) for path in self.paths]


def candidates(arguments: TrainingArguments, folder: Path, report: Callable[[str], None]) -> list[Candidate]:
    """The weights to choose from; only one candidate if the recipe names it. Damaged checkpoints are skipped.

    Args:
        folder: the output folder.
        report: called with a line about each checkpoint that is skipped.

    Raises:
        InputError: if there are no intact weights.
    """
    kind, checkpoints = arguments.average, checkpoint_folders(folder / CHECKPOINTS)
    # A session that was killed may have validated steps that the run, resumed with other limits, did not take again.
    end = step_of(checkpoints[-1]) if checkpoints else math.inf
    best = [path for path in ranked(folder / BEST) if step_of(path) <= end]
    if kind == "best" and not best:
        report(
            "There were no validations, so there are no best weights: the final model is the mean of the last "
            "checkpoints"
        )
        kind = "last"
    last = _whole(checkpoints, arguments.average_last, report) if kind != "best" else []
    found = {
        "last": _mean("last", "checkpoint", last),
        "last alone": _mean("last", "checkpoint", last[-1:]),
        "best": _mean("best", "weights in validation", best[: arguments.keep_best]),
        "best alone": _mean("best", "weights in validation", best[:1]),
    }
    kept: dict[tuple[int, ...], Candidate] = {}
    for name in found if kind == "auto" else [kind]:
        if found[name].paths:
            # Candidates from the same steps have the same weights, whatever they are called.
            kept.setdefault(tuple(sorted(found[name].steps)), found[name])
    if not kept:
        raise InputError(
            f"{folder} contains no intact weights for the final model. Raise training.max_steps to train further."
        )
    return list(kept.values())


def _whole(checkpoints: list[Path], last: int, report: Callable[[str], None]) -> list[Path]:
    """The intact ones of the last N checkpoints; if there are none, the newest intact one."""
    wanted = checkpoints[-last:]
    whole = [path for path in wanted if find_damage(path) is None]
    for path in wanted:
        if path not in whole:
            report(f"{path} is damaged and not used for the final model")
    return whole or [path for path in checkpoints[:-last] if find_damage(path) is None][-1:]


def _mean(which: str, what: str, paths: list[Path]) -> Candidate:
    if len(paths) == 1:
        return Candidate(f"the {which} {what}", tuple(paths))
    plural = what.replace("checkpoint", "checkpoints")
    return Candidate(f"the mean of the {which} {len(paths)} {plural}", tuple(paths))


def lowest(losses: list[float]) -> int:
    """The index of the lowest loss, the first of equal ones; NaN counts as the highest."""
    return min(range(len(losses)), key=lambda i: losses[i] if losses[i] == losses[i] else math.inf)


def describe(arguments: TrainingArguments, compared: list[Candidate], losses: list[float]) -> FinalWeights:
    """The weights that became the final model, and the candidates that they were compared with."""
    return FinalWeights(
        average=arguments.average,
        weights=compared[lowest(losses)].name,
        compared=[
            ComparedWeights(weights=candidate.name, steps=candidate.steps, validation_loss=loss)
            for candidate, loss in zip(compared, losses)
        ],
    )
