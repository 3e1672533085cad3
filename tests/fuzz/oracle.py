"""What an input must not do: lose or change a file, leave anything behind, crash, hang, or report internals.

A folder is compared before and after. A command may change only what its options name as output, and replace existing
files only if asked to; a rejected command may change nothing.
"""

import fnmatch
import hashlib
import importlib.util
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runner import Input

BROKEN = 99  # the status of an input that is itself broken
PACKAGE = Path(importlib.util.find_spec("hf_vaswani").origin).parent
# In a message to the user, these are about the code, not the input.
UNCLEAR = ("has no attribute", "'NoneType' object", "type 'NoneType'", "positional argument", "not subscriptable",
           "indices must be", " at 0x", "not iterable", "PyObject", "panicked", "unsupported operand",
           "object cannot be interpreted", "Python object", "sys.set_int")  # fmt: skip
NO_MEMORY = "not enough memory"
OUTPUTS = {  # arguments that name what a command writes; a folder stands for everything in it
    "translate": ("--output",), "evaluate": ("--output",), "attention": ("--output",), "card": ("--output", 1),
    "beam-tree": ("--output",), "curves": ("--output", 1), "average": ("--output",), "tokenizer": (1,), "import": (2,),
    "export": (2,), "corpus": (1,), "clean": (1, "--save_cleaner"),
    "train": ("--output_dir", "--training.output_dir", "--data.cache_dir", "--cache_dir", "--cache-dir"),
}  # fmt: skip
OWN = {"card": ("README.md*", "results.json"), "curves": ("curves.png",)}  # in a run's folder, without --output


def judge(case: "Input", status: int | str, output: str, crash: str) -> list[tuple[str, str]]:
    """What is wrong with a status and the output."""
    if not isinstance(status, int):
        return [(status, f"within {case.seconds} s" if status == "hang" else "killed the process")]
    problems = [("panic", line) for line in output.splitlines() if "panicked at" in line][:1]
    lines = output.strip().splitlines() or [""]
    if status == BROKEN:
        problems.append(("broken input", lines[-1]))
    elif case.code:
        problems += judge_error(case, output, crash)
    elif "Traceback (most recent call last)" in output:
        problems.append(("traceback", where(output)))
    elif status not in (0, 2) and not (status == 1 and (case.argv[0] in ("train", "verify") or NO_MEMORY in output)):
        problems.append(("status", str(status)))
    elif status and (status, case.argv[0]) != (1, "verify") and not any(map(is_error, lines)):
        problems.append(("no message", lines[-1][:200]))
    elif status and (found := [word for word in UNCLEAR if word in output]):
        problems.append(("unclear", f"{found[0]!r} in: {lines[-1][:200]}"))
    if case.refused is not None and case.refused == (status == 0):
        problems.append(("accepted" if case.refused else "refused", "and must not be"))
    return problems


def is_error(line: str) -> bool:
    """Whether a line of output says what the error is."""
    return bool(line.lower().partition("error: ")[2])


def judge_error(case: "Input", output: str, crash: str) -> list[tuple[str, str]]:
    """What is wrong with an exception; those raised without any of this package's code involved are ignored."""
    kinds, _, places = crash.partition("\n\n")
    if not kinds or str(PACKAGE) not in places:
        return []
    kinds, message = kinds.splitlines(), output[output.rfind("Traceback (most recent call last)") :]
    if not {"ValueError", "TypeError"} & set(kinds):
        return [("traceback", where(output))]
    text = message[message.rfind("\n  File ") :].partition(f"{kinds[0]}:")[2].lower()
    if case.words and not any(word.lower() in text for word in case.words):
        return [("unnamed", f"{where(output)} does not name {' or '.join(case.words)}")]
    return []


def where(output: str) -> str:
    """The last line of a traceback and its last location in this package's code, or else in any code."""
    lines = output.strip().splitlines()
    places = [line.strip() for line in lines if line.strip().startswith("File ")]
    own = [place.replace(f"{PACKAGE}/", "") for place in places if str(PACKAGE) in place] or places or [""]
    error = next((line for line in reversed(lines) if line and not line.startswith((" ", "\t"))), "")
    return f"{error[:200]}  ({own[-1]})"


def snapshot(folder: Path, digests: dict[tuple, str]) -> dict[str, tuple]:
    """Each path below a folder: its type, its permissions, and what a file contains or a link points to.

    Args:
        digests: of files, by metadata that changes when a file is written to; new ones are added.
    """
    found = {}
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(place, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                known = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                content = digests[known] = digests.get(known) or digest(path)
            else:
                content = ""
            found[os.path.relpath(path, folder)] = (status.st_mode, content)
    return {path: entry for path, entry in found.items() if path.split("/")[0] not in ("cache", "home")}


def digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    except PermissionError:  # unless root
        return "unreadable"


def harm(case: "Input", status: int | str, before: dict, after: dict, sandbox: Path) -> list[tuple[str, str]]:
    """What was lost, changed or left behind but must not be."""
    new, replaceable = written(case, status, sandbox)
    problems, moved = [], {entry[1] for path, entry in after.items() if entry != before.get(path)}
    for path in before:
        if before[path] == after.get(path) or path in replaceable:
            continue
        is_mine = any(fnmatch.fnmatch(path, pattern) for pattern in case.keep)
        is_renamed = is_mine and before[path][1] and before[path][1] in moved
        if not is_renamed and (is_mine or not within(path, replaceable)):
            problems.append(("harm", f"{path} {'changed' if path in after else 'is gone'}"))
    made = {str(parent) for path in new for parent in Path(path).parents}
    left = [path for path in after if path not in before and path not in made and not within(path, new)]
    problems += [("litter", f"{path} is left") for path in left]
    return problems[:5]


def written(case: "Input", status: int | str, sandbox: Path) -> tuple[list[str], list[str]]:
    """The paths that a command may create, and those that it may replace or remove, relative to the sandbox."""
    if case.code:
        return ([*case.writes], []) if status == 0 else ([], [])
    if status == 2 and case.argv[0] == "translate":
        # What was translated before the input turned out to be damaged is kept for --resume.
        names = [word for option, word in zip(case.argv, case.argv[1:]) if option == "--output"]
        partial = [path for name in names for path in (name, f"{os.path.dirname(name)}.{os.path.basename(name)}.*")]
        return [relative(path, sandbox) for path in partial], []
    if status == 2 or case.argv[0] not in OUTPUTS:
        return [], []
    command, *rest = case.argv
    flat = [part for argument in rest for part in (argument.split("=", 1) if argument[:2] == "--" else [argument])]
    positional = [command, *(word for word in flat if not word.startswith("--"))]
    named = [positional[key] for key in OUTPUTS[command] if isinstance(key, int) and key < len(positional)]
    own = [os.path.join(name, pattern) for name in named for pattern in OWN.get(command, ())]
    if command in OWN:
        named = []
    for place, word in enumerate(flat[:-1]):
        if any(word == name or (len(word) > 4 and name.startswith(word)) for name in map(str, OUTPUTS[command])):
            ends = next((i for i, later in enumerate(flat[place + 1 :]) if later.startswith("--")), len(flat))
            named += flat[place + 1 : place + 1 + ends]
    if command == "card":
        named += [os.path.splitext(name)[0] for name in named]  # its pictures
    if command == "curves":
        own.append("curves.png")  # of several runs
    if command == "train":
        own.append("*/" + "[0-9a-f]" * 32 + "*")  # prepared text, if the recipe says so
    if command == "attention":
        own.append("../*.png")  # into a folder
    may_replace = command == "train" or "--overwrite" in flat or "--resume" in flat
    inputs = {os.path.realpath(word) for word in flat if not word.startswith("--") and word not in named}
    new = [relative(name, sandbox) for name in [*named, *own]] + [*case.writes]
    replaceable = [relative(name, sandbox) for name in ([*named, *own] if may_replace else own)] + [*case.writes]
    return new, [
        path for path in replaceable if os.path.join(sandbox, path) not in inputs or command in (*OWN, "train")
    ]


def relative(path: str, sandbox: Path) -> str:
    return os.path.relpath(os.path.realpath(os.path.join(sandbox, "work", path)), os.path.realpath(sandbox))


def within(path: str, patterns: list[str]) -> bool:
    return any(path == p or path.startswith(f"{p}/") or fnmatch.fnmatch(path, p) for p in patterns)
