"""The products of commands: whether one is new, begun, finished, or in use, and whether it was made in the same way.

A folder gets its name once it is complete, and is locked while it is written: the system removes the lock of a killed
process, and no lock file is left that would be pushed or exported. A small JSON file next to each model, average and
file of translated pairs says how it was made: the command, its settings, and its inputs by digest, each with its own
provenance, so that the file of a final model tells the whole story. A command that finds its product finished compares
the two, and says what differs.
"""

import glob
import json
import os
import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from safetensors import SafetensorError

from .errors import InputError, reason, write_remedy
from .files import atomic_write, is_own, path_error, sync, writing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

HAS_LOCKS = fcntl is not None
# Opens no symbolic link, where the operating system can refuse to.
NO_LINK = getattr(os, "O_NOFOLLOW", 0)

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
        """Write the file next to a product.

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
        return differences(before, after) + changed_inputs(self.inputs, now.inputs)

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
    """The inputs whose content has changed, in words."""
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


def differences(before: Mapping[str, Any], now: Mapping[str, Any], section: str = "") -> list[str]:
    """The settings whose values have changed, in words.

    Args:
        section: the beginning of their names.
    """
    return [
        f"{section}{name} was {before.get(name)!r} and is now {now.get(name)!r}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]


def busy(path: Path) -> InputError:
    """The error for a file or folder that another process has locked."""
    kind = "folder" if path.is_dir() else "file"
    return InputError(f"Another command is using {path}. Wait for it to finish, or choose another {kind}.")


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Create a folder, and keep other processes from writing to it while the block runs.

    Raises:
        InputError: another process has locked it, or it cannot be created.
    """
    with ExitStack() as stack:
        with writing(folder):
            folder.resolve().mkdir(parents=True, exist_ok=True)  # where a link leads, too
            try:
                stack.enter_context(locked(folder.resolve()))
            except BlockingIOError:
                raise busy(folder) from None
        yield


def check_new(output: str | Path) -> None:
    """Refuse an output folder that is not empty, or that cannot be created."""
    if error := path_error(output, is_output=True):
        raise InputError(error)
    try:
        output = Path(output).resolve()
        is_free = not output.exists() or (output.is_dir() and not any(output.iterdir()))
        parent = next(path for path in (output, *output.parents) if path.exists())
    except (OSError, ValueError) as error:
        raise InputError(f"{output} cannot be written: {reason(error)}") from None
    if not is_free:
        raise InputError(f"{output} exists and is not an empty folder. Choose another one; nothing is overwritten.")
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        why = "it is not writable" if parent.is_dir() else "it is not a folder"
        raise InputError(f"{output} cannot be created in {parent}: {why}. Choose another one.")


def partial_folder(output: Path) -> Path:
    """A hidden folder next to an output folder, of a name that nobody can foresee."""
    return output.with_name(f".{output.name}-{uuid.uuid4().hex}")


@contextmanager
def new_folder(output: str | Path, then: str = "or choose another folder", is_cached: bool = False) -> Iterator[Path]:
    """Yield a hidden folder to write into, which gets its final name only once everything is written.

    Hidden folders that killed processes left for the same output are removed.

    Args:
        then: what else can be done if it cannot be written, to end that sentence.
        is_cached: whether the folder is for this user alone, who can make its content again, and another process may
            write the same content meanwhile, which is then kept.

    Raises:
        InputError: the folder is not new, or cannot be written.
    """
    if not is_cached:
        check_new(output)
    output = Path(output).resolve()
    for left in output.parent.glob(f".{glob.escape(output.name)}-{'[0-9a-f]' * 32}"):
        with suppress(OSError), locked(left) as is_locked:
            if is_locked:
                shutil.rmtree(left)
    partial = partial_folder(output)
    try:
        partial.mkdir(0o700 if is_cached else 0o777, parents=True)
        with locked(partial):
            yield partial
        if not is_cached:
            for path in (*partial.rglob("*"), partial):
                sync(path)
            check_new(output)  # another process may have written it meanwhile
            if output.exists():
                output.rmdir()
        partial.rename(output)
        sync(output.parent)
    except (OSError, SafetensorError) as error:
        if is_cached and output.is_dir() and is_own(output):
            return
        raise InputError(f"{output} cannot be written: {reason(error)}. {write_remedy(error)}, {then}.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed.

    Returns:
        Whether it is locked: not if the operating system or file system has no locks.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return False
    return True


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Lock a folder while the block runs, and yield whether it is locked, as in [`lock`].

    Raises:
        BlockingIOError: another process holds the lock. The system releases it if that process is killed.
        OSError: the folder cannot be opened, or is a symbolic link.
    """
    if fcntl is None:  # such systems cannot open a folder either
        yield False
        return
    descriptor = os.open(folder, os.O_RDONLY | NO_LINK)
    try:
        yield lock(descriptor)
    finally:
        os.close(descriptor)
