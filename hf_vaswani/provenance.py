"""What a product was made from: a small JSON file beside each model, average, and file of translated pairs.

It names the command, its settings, and its inputs by digest, each with its own provenance, so that the file of a final
model tells the whole story. A command that finds its product finished compares the two, and says what differs.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from .errors import InputError, reason
from .files import atomic_write

PROVENANCE_FILE = "provenance.json"


class Provenance(BaseModel):
    """How a product was made.

    Attributes:
        command: `"train"`, `"translate"` or `"average"`.
        settings: the options that the product depends on, without paths; of a run, its recipe as the card shows it.
        inputs: what it was made from.
        results: a few figures, for the card.
        seconds: the time that it took, without its inputs.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    command: str
    settings: dict[str, Any] = {}
    inputs: list["Input"] = []
    results: dict[str, Any] = {}
    seconds: float = 0.0

    @model_validator(mode="after")
    def _check_recipe(self) -> "Provenance":
        if self.command == "train" and not all(isinstance(keys, dict) for keys in self.settings.values()):
            raise ValueError("the settings of a run must be the sections of a recipe")
        return self

    def write(self, product: Path) -> None:
        """Write the file beside a product.

        Raises:
            OSError: if it cannot be written.
        """
        with atomic_write(provenance_file(product)) as part:
            part.write_text(f"{self.without_repetition().to_json()}\n", encoding="utf-8")

    def to_json(self) -> str:
        """The content of the file."""
        text = json.dumps(self.model_dump(exclude_defaults=True), indent=1, ensure_ascii=False)
        return text.encode("utf-8", "replace").decode()

    def without_repetition(self) -> "Provenance":
        """The same, in which each product before this one is described only where it is first named.

        Otherwise a chain of products, each made from all before it, would double in size with each.
        """
        seen: set[str] = set()

        def describe(made: Provenance) -> Provenance:
            inputs = []
            for source in made.inputs:
                is_first = source.made is not None and source.digest not in seen
                seen.update([source.digest] if is_first else [])
                inputs.append(source.model_copy(update={"made": describe(source.made) if is_first else None}))
            return made.model_copy(update={"inputs": inputs})

        return describe(self)

    def differences(self, now: "Provenance") -> list[str]:
        """How settings and inputs differ from those that a command has now."""
        before, after = (json.loads(json.dumps(made.settings)) for made in (self, now))
        found = [
            f"{name} was {before.get(name)!r} and is now {after.get(name)!r}"
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        ]
        return found + changed_inputs(self.inputs, now.inputs)

    def earlier(self) -> Iterator[tuple[str, "Provenance"]]:
        """Names and provenances of all products before this one, each once, after those that it was made from."""
        seen: set[str] = set()

        def walk(made: Provenance) -> Iterator[tuple[str, Provenance]]:
            for source in made.inputs:
                if source.made is not None and source.digest not in seen:
                    yield from walk(source.made)
                    seen.add(source.digest)
                    yield source.name, source.made

        return walk(self)

    def replayable(self) -> Iterator[tuple[str, "Provenance"]]:
        """The earlier runs that were trained on text alone, and left a trail from which they can be replayed."""
        return ((name, made) for name, made in self.earlier()
                if made.command == "train" and not made.inputs and "trail" in made.results)  # fmt: skip


class Input(BaseModel):
    """Something that a product was made from.

    Attributes:
        role: what it was used for, as the option that names it: `"model"`, `"training.start_from"`.
        name: its file or folder without the folders around it, or its id on the Hub.
        digest: digest of its content.
        made: how it was made, if that is known.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    role: str
    name: str
    digest: str
    made: Provenance | None = None


def make_input(role: str, place: str | Path, digest: str) -> Input:
    """An input from its path, or its id on the Hub, with its provenance."""
    path = Path(place)
    return Input(role=role, name=path.resolve().name if path.exists() else str(place), digest=digest,
                 made=read_provenance(path))  # fmt: skip


def changed_inputs(before: list[Input], now: list[Input]) -> list[str]:
    """The inputs whose content is no longer that of before, in words."""
    found = []
    for role in dict.fromkeys(source.role for source in [*before, *now]):
        then, here = ([source for source in inputs if source.role == role] for inputs in (before, now))
        if [source.digest for source in then] != [source.digest for source in here]:
            names = [", ".join(source.name for source in inputs) or "none" for inputs in (then, here)]
            is_same = names[0] == names[1]
            found.append(
                f"{role} {names[1]} has changed" if is_same else f"{role} was {names[0]} and is now {names[1]}"
            )
    return found


def is_finished(product: Path, now: Provenance, remedy: str) -> bool:
    """Whether a product is there, made in the way in which a command would make it now, which is then reported.

    Args:
        remedy: what to do if it was made in another way, as the next sentence.

    Raises:
        InputError: if it was made in another way, or if that is unknown.
    """
    if not product.exists():
        return False
    before = read_provenance(product)
    if before is None:
        why = f"{provenance_file(product).name} is missing"
        raise InputError(f"{product} exists, and it is unknown how it was made: {why}. {remedy}")
    if differences := before.differences(now):
        raise InputError(f"{product} was made in another way: {'; '.join(differences)}. {remedy}")
    print(f"{product} is finished. Nothing to do.", file=sys.stderr)
    return True


def provenance_file(product: Path) -> Path:
    """The file that says how a folder or file was made."""
    return product / PROVENANCE_FILE if product.is_dir() else product.with_name(f"{product.name}.{PROVENANCE_FILE}")


def read_provenance(product: Path) -> Provenance | None:
    """How a folder or file was made; `None` if no file says so.

    Raises:
        InputError: if the file is damaged.
    """
    file = provenance_file(product)
    try:
        return Provenance.model_validate_json(file.read_bytes()) if file.is_file() else None
    except (OSError, ValidationError, RecursionError) as error:
        raise InputError(
            f"{file} cannot be read: {reason(error)}. Delete it; its product is then made again."
        ) from None
