"""Which stage a command-line option refers to: `--stages.both.training.max_steps 100`.

`stages.` may be left out, and so may the kind of the stage. For a stage that translates, its name alone stands for its
model: `--teacher PATH`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ...configuration.name_hints import OTHER_NAMES, hint
from ...errors import nearest
from .arguments import KINDS, SECTION_OF_KIND, TRAIN, TRANSLATE

PREFIX = "stages"
# Stage, section, key.
StageKey = tuple[str, str, str]


def kind_of(content: Any) -> str | None:
    """The kind of a stage as a recipe gives it; `None` if it is invalid."""
    names = list(content) if isinstance(content, dict) else []
    return names[0] if len(names) == 1 and names[0] in KINDS else None


def key_of_stage(
    option: str,
    stages: Mapping[str, Any],
    section_of: Callable[[str, list[str]], str | None],
    errors: list[str],
) -> StageKey | None:
    """The key of a stage that an option names; `None` if it names none.

    Args:
        option: without its leading dashes.
        stages: name → content, as the recipe gives them.
        section_of: finds the section of a recipe key by the name of the key.
        errors: the list to which an unknown stage or key is added.
    """
    parts = option.split(".")
    has_prefix = parts[0] == PREFIX
    if not has_prefix and parts[0] not in stages:
        return None
    name, *rest = parts[has_prefix:] or [""]
    if name not in stages:
        close = nearest(name, stages)
        meant = f"did you mean '{close}'?" if close else f"there are {', '.join(stages) or 'none'}"
        errors.append(f"--{option}: unknown stage '{name}'; {meant}")
        return None
    kind = kind_of(stages[name])
    if kind is None:  # reported when the recipe is read
        return None
    rest = rest[1:] if rest[:1] == [kind] else rest
    if kind == TRAIN:
        found: list[str] = []
        section = section_of(".".join(rest), found) if rest else None
        errors += [error.replace(f"--{'.'.join(rest)}", f"--{option}", 1) for error in found]
        if not rest:
            errors.append(f"--{option}: specify a key of the stage, as in --{PREFIX}.{name}.training.max_steps 100")
        return (name, section, rest[-1]) if section else None
    keys = SECTION_OF_KIND[kind].model_fields
    if not rest and kind == TRANSLATE:
        return name, kind, "model"
    key = ".".join(rest)
    if key not in keys:
        meant = hint(key, {key: key for key in keys}, OTHER_NAMES) or f"choose from {', '.join(keys)}"
        errors.append(f"--{option}: a stage that {'translates' if kind == TRANSLATE else 'averages'} has no key "
                      f"'{key}'; {meant}")  # fmt: skip
        return None
    return name, kind, key
