"""The folder of a sweep: what it may contain, which runs are finished, and how one process locks it."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ...errors import InputError
from ...files import HAS_LOCKS, atomic_write, check_types, lock, path_error, read_json
from ...runtime.launcher import BETWEEN_LOOKS
from ..setup.resume import stored_differences
from .plan import SweepPlan

# Lists what is finished; this file marks a folder as that of a sweep.
STATE_FILE = "state.json"
STATE_TYPES = {"combinations": dict[str, dict[str, str]], "seeds": list[int], "finished": dict[str, str]}
# Seconds in which the runs of a killed sweep end: they notice that it is gone, but only once they have imported all
# that they need.
ENDING = 60.0


class SweepState:
    """What is finished in the folder of a sweep, kept in a file.

    Attributes:
        descriptor: of the locked folder; runs inherit it, so that the folder stays locked as long as one of them is
            alive. `None` if the system has no locks.
    """

    def __init__(self, plan: SweepPlan, finished: dict[str, str], descriptor: int | None):
        self._plan, self._finished, self.descriptor = plan, finished, descriptor

    def is_finished(self, name: str, digest: str) -> bool:
        """Whether a run was finished with the recipe that has this digest."""
        return self._finished.get(name) == digest

    def note(self, name: str, digest: str | None) -> None:
        """Record that a run is finished or, if the digest is `None`, that it is not."""
        if digest is None:
            self._finished.pop(name, None)
        else:
            self._finished[name] = digest
        self.save()

    def save(self) -> None:
        """Write the file.

        Raises:
            OSError: if that is not possible.
        """
        content = {
            "combinations": {combination.name: combination.values for combination in self._plan.combinations},
            "seeds": list(self._plan.seeds),
            "finished": self._finished,
        }
        with atomic_write(self._plan.folder / STATE_FILE) as part:
            part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def place_errors(folder: Path) -> list[str]:
    """Why a folder cannot hold any sweep: it is not writable, or holds something else."""
    name = f"--output_dir {folder}"
    if error := path_error(folder, is_output=True):
        return [f"--output_dir: {error}"]
    if not folder.exists():
        existing = next(path for path in folder.resolve().parents if path.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            return [f"{name} cannot be created in {existing}. Choose another folder."]
        return []
    if not folder.is_dir():
        return [f"{name} is a file. Choose another folder."]
    if not os.access(folder, os.W_OK | os.X_OK):
        return [f"{name} is not writable. Choose another folder."]
    if not (folder / STATE_FILE).exists() and any(folder.iterdir()):
        return [f"{name} is not empty and contains no sweep. Choose another folder."]
    return []


def content_errors(plan: SweepPlan) -> list[str]:
    """Why a sweep cannot use the folder of an earlier one, which must be the same sweep or a part of it."""
    if not (plan.folder / STATE_FILE).exists():
        return []
    try:
        state = _read(plan.folder)
    except InputError as error:
        return str(error).splitlines()
    now = {combination.name: combination.values for combination in plan.combinations}
    errors = [f"combination {old}" for old, values in state["combinations"].items() if now.get(old) != values]
    errors += [f"seed {seed}" for seed in state["seeds"] if seed not in plan.seeds]
    if errors:
        return [
            f"--output_dir {plan.folder} contains a sweep with more than this one ({', '.join(errors)}). "
            "To extend it, list everything that it has, or choose another folder."
        ]
    return _run_errors(plan, state["finished"])


def stored_combinations(folder: Path) -> dict[str, dict[str, str]]:
    """Name → values of the combinations of the sweep in a folder, in order; empty if there is no sweep.

    Raises:
        InputError: the file that lists them is damaged.
    """
    return _read(folder)["combinations"] if (folder / STATE_FILE).exists() else {}


def _run_errors(plan: SweepPlan, finished: dict[str, str]) -> list[str]:
    """Errors for runs in the folder that cannot be resumed with their current recipes, one for each reason.

    Args:
        finished: name → digest of the recipe of the finished runs.
    """
    reasons: dict[str, list[str]] = {}
    for run in plan.runs:
        if finished.get(run.name) == run.digest:
            continue
        try:
            differences = stored_differences(run.recipe)
        except InputError as error:
            differences = [str(error)]
        if differences:
            reasons.setdefault("; ".join(differences), []).append(run.name)
    return [
        f"--output_dir {plan.folder} contains runs of another recipe ({why}): {names[0]}"
        + (f" and {len(names) - 1} more" if names[1:] else "")
        + ". Choose another folder."
        for why, names in reasons.items()
    ]


@contextlib.contextmanager
def open_folder(plan: SweepPlan) -> Iterator[SweepState]:
    """Lock the folder of a sweep while the block runs; make the folder if it does not exist.

    Raises:
        InputError: if another sweep still holds the folder after the time in which runs of a killed sweep end.
    """
    descriptor = None
    try:
        plan.folder.resolve().mkdir(parents=True, exist_ok=True)
        descriptor = os.open(plan.folder, os.O_RDONLY) if HAS_LOCKS else None
        if descriptor is not None:
            _lock(descriptor, plan.folder)
        finished = _read(plan.folder)["finished"] if (plan.folder / STATE_FILE).exists() else {}
        state = SweepState(plan, finished, descriptor)
        state.save()
        yield state
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    end, is_told = time.monotonic() + ENDING, False
    while True:
        try:
            lock(descriptor)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise InputError(
                    f"Another sweep is training in {folder}. Wait for it to finish, or choose another folder."
                ) from None
            if not is_told:
                print(f"Another sweep is using {folder}; waiting for its runs to end", file=sys.stderr, flush=True)
            is_told = True
            time.sleep(BETWEEN_LOOKS)


def _read(folder: Path) -> dict:
    path = folder / STATE_FILE
    state = read_json(path, "Replace its content with {}; finished runs are then recognized, and the others resumed.")
    if not state:
        return {"combinations": {}, "seeds": [], "finished": {}}
    check_types(path, state, STATE_TYPES)
    return state
