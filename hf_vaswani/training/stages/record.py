"""The record of a stage that was begun: its settings and inputs, by which it is recognized, and its results.

The record is beside the stage's folder in the output folder, as `stages/NAME.json`. It is written before anything is
written into the stage's folder.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...configuration.keys import traits
from ...configuration.renamed_keys import with_new_names
from ...errors import InputError, reason, write_remedy
from ...files import atomic_write, read_json, type_errors
from ..checkpoints.checkpoint import file_digest
from ..recipe.recipe import SECTIONS, Recipe
from ..setup.resume import has_final_weights, recipe_differences
from ..setup.text_mix import OWN
from .arguments import PAIRS_FILE, SECTION_OF_KIND, SELECTION, TRAIN, TRANSLATE, Stage, listed
from .plan import PlannedStage
from .translate_text import has_all_translations

# Keys that may change when a run is resumed, but that change its final model.
OF_FINAL_WEIGHTS = {
    "max_steps", "num_train_epochs", "max_minutes", "eval_steps", "early_stopping_patience", "save_steps",
    "save_total_limit", "keep_best", "average", "average_last", "average_best", "merge",
}  # fmt: skip
# Names of inputs in a record: what that of a file or a stage begins with, and the recipe's own training text.
OF_FILE, OF_STAGE, OWN_TEXT = "file ", "stage ", "the training text"
MODEL_FILES = ("config.json", "generation_config.json", "tokenizer.json", "*.safetensors", "*.bin", "*.spm")


@dataclass
class Record:
    """What is known about a stage that was begun.

    Attributes:
        kind: of the stage.
        settings: what the recipe says about the stage, with other stages by name.
        inputs: what the stage was made from → its digest.
        seconds: time spent on the stage, as far as it was recorded.
        is_finished: whether everything that the stage makes exists.
        product: digest of what the stage made.
        result: the results of the stage, for the report.
    """

    kind: str
    settings: dict[str, Any]
    inputs: dict[str, str]
    seconds: float = 0.0
    is_finished: bool = False
    product: str = ""
    result: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the record atomically.

        Raises:
            InputError: if it cannot be written.
        """
        try:
            with atomic_write(path) as part:
                part.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path} cannot be written: {reason(error)}. {write_remedy(error)}.") from None


def read_record(path: Path) -> Record | None:
    """The record of a stage; `None` if the stage was not begun.

    Raises:
        InputError: if the record is damaged.
    """
    if not path.exists():
        return None
    values = read_json(path, remedy="Delete the stage's folder and this file to redo the stage.")
    kinds = {"kind": str, "settings": dict, "inputs": dict[str, str], "seconds": float, "is_finished": bool,
             "product": str, "result": dict}  # fmt: skip
    if errors := type_errors(values, kinds):
        raise InputError(
            f"{path} is damaged: {'; '.join(errors)}. Delete it and the stage's folder to redo the stage."
        )
    record = Record(**{name: values[name] for name in kinds})
    if record.kind == TRANSLATE:
        # Earlier versions kept what the user wrote: one name, or nothing, instead of a list.
        for name, default in (("model", []), ("input", [OWN])):
            record.settings[name] = listed(record.settings.get(name), default)
    record.settings = _with_defaults(record.kind, record.settings)
    return record


def _with_defaults(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Stored settings by today's names, with the defaults of keys that an earlier version did not have."""
    if kind != TRAIN:
        defaults = SECTION_OF_KIND[kind]().model_dump() if kind in SECTION_OF_KIND else {}
        return json.loads(json.dumps({**defaults, **settings}))
    if not all(isinstance(keys, dict) for keys in settings.values()):
        return settings
    defaults, stored = _public(Recipe().to_dict()), with_new_names(settings)
    return {section: {**defaults.get(section, {}), **stored.get(section, {})} for section in {**defaults, **stored}}


def settings_of(stage: Stage) -> dict[str, Any]:
    """The settings that identify a stage, as JSON values."""
    arguments = stage.arguments
    if stage.kind == TRANSLATE:
        arguments = arguments.with_lists()
    if stage.kind != TRAIN:
        return json.loads(json.dumps(arguments.model_dump()))
    return _public(arguments.to_dict())


def _public(sections: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The sections of a recipe without private keys, as JSON values."""
    public = {}
    for section, keys in sections.items():
        fields = SECTIONS[section].model_fields
        public[section] = {n: v for n, v in keys.items() if n not in fields or not traits(fields[n]).private}
    return json.loads(json.dumps(public))


def differences(record: Record, planned: PlannedStage, inputs: dict[str, str]) -> list[str]:
    """How a stage differs from the one that was begun in its folder.

    Keys that may change when a run is resumed do not count. Neither does, in an unfinished translation, what only
    chooses among translations. As long as lines are left to translate, text does not count either: its lines are
    compared with those that were translated.

    Args:
        inputs: digests of the stage's inputs now, as far as they are known.
    """
    if record.kind != planned.stage.kind:
        return [f"it was a stage of kind {record.kind}"]
    if record.kind == TRAIN:
        found = recipe_differences(record.settings, planned.stage.arguments)
        if record.settings.get("data", {}).get("text") != settings_of(planned.stage)["data"]["text"]:
            found.append(
                f"data.text was {record.settings['data']['text']!r} and is now {planned.stage.arguments.data.text!r}"
            )
    else:
        now = settings_of(planned.stage)
        begun = record.kind == TRANSLATE and not record.is_finished
        found = [
            f"{record.kind}.{name} was {record.settings.get(name)!r} and is now {now.get(name)!r}"
            for name in {**record.settings, **now}
            if record.settings.get(name) != now.get(name) and not (begun and name in SELECTION)
        ]
        if begun and not has_all_translations(planned.folder):
            inputs = {n: d for n, d in inputs.items() if n != OWN_TEXT and not n.startswith(OF_FILE)}
    return found + [
        f"{name} has changed" for name, digest in inputs.items() if record.inputs.get(name, digest) != digest
    ]


def inputs_from_stages(products: dict[str, str]) -> dict[str, str]:
    """What other stages have made, stage → digest, by name as inputs in a record."""
    return {f"{OF_STAGE}{name}": digest for name, digest in products.items()}


def is_complete(record: Record, planned: PlannedStage) -> bool:
    """Whether a stage was finished, what it made still exists, and no setting that affects it has changed."""
    folder = planned.folder
    is_there = (folder / PAIRS_FILE).exists() if record.kind == TRANSLATE else has_final_weights(folder)
    before, now = _of_product(record.kind, record.settings), _of_product(record.kind, settings_of(planned.stage))
    return record.is_finished and is_there and before == now


def _of_product(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that affect what a stage makes."""
    if kind != TRAIN:
        return settings
    return {
        f"{section}.{name}": value
        for section, keys in settings.items()
        for name, value in keys.items()
        if section in ("model", "generation")
        or name in OF_FINAL_WEIGHTS
        or (name in SECTIONS[section].model_fields and not traits(SECTIONS[section].model_fields[name]).resumable)
    }


def model_digest(folder: Path) -> str:
    """Digest of a file, or of the files of the model or tokenizer in a folder; empty if there are none."""
    if folder.is_file():
        return file_digest(folder)
    files = sorted({path for pattern in MODEL_FILES for path in folder.glob(pattern)})
    # Whole files can be compared: nothing in a config that transformers writes depends on the time or the machine.
    return " ".join(file_digest(path)[:16] for path in files)


def product_digest(planned: PlannedStage) -> str:
    """Digest of what a finished stage made."""
    if planned.stage.kind == TRANSLATE:
        return file_digest(planned.folder / PAIRS_FILE)
    return model_digest(planned.folder)
