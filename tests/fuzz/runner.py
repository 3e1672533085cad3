"""Runs one input in a process and a folder of its own, and says what it did that it must not.

A worker imports the package once and forks for each input, so that one that hangs or dies costs no other.
The child stands in the folder `work` of a fresh copy of the world (`world.py`), without the rights of root and a
network, with limits on time, memory and file sizes. The whole copy is compared before and after.
"""

import contextlib
import ctypes
import fnmatch
import functools
import gc
import hashlib
import importlib.util
import os
import pkgutil
import resource
import shlex
import shutil
import signal
import socket
import stat
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from . import world

SECONDS, MEMORY, LARGEST_FILE = 30, 4 << 30, 64 << 20
BROKEN = 99  # the status of an input that fails by itself
# Read by the package and its libraries when they are imported: set before that in each worker.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg",
    "ACCELERATE_USE_CPU": "true", "COLUMNS": "120",
}  # fmt: skip
PACKAGE = Path(importlib.util.find_spec("hf_vaswani").origin).parent
NOTE_IMPORTS = """
import atexit, os, sys
def note(exit=os._exit):
    def leave(status):
        with open(os.path.join(os.environ["HOME"], "../../world.imports"), "a") as file:
            file.write("\\n".join(sys.modules) + "\\n")
        exit(status)
    return leave
os._exit = note()
"""
# In a message to a user, these speak of the code and not of the input.
UNCLEAR = ("has no attribute", "'NoneType' object", "type 'NoneType'", "positional argument", "not subscriptable",
           "indices must be", " at 0x", "not iterable", "PyObject", "panicked", "unsupported operand",
           "object cannot be interpreted", "Python object", "sys.set_int")  # fmt: skip
OUTPUTS = {  # arguments that name what a command writes; a folder stands for all that is in it
    "translate": ("--output",), "evaluate": ("--output",), "attention": ("--output",), "card": ("--output", 1),
    "curves": ("--output", 1), "average": ("--output",), "tokenizer": (1,), "import": (2,), "export": (2,),
    "corpus": (1,), "train": ("--output_dir", "--training.output_dir", "--data.cache_dir", "--cache_dir"),
}  # fmt: skip
OWN = {"card": ("README.md*", "results.json"), "curves": ("curves.png",)}  # of a training's folder, without --output


@dataclass(frozen=True)
class Input:
    """A command line or a piece of Python, and what is done to the world before.

    Attributes:
        name: unique and readable.
        argv: of `hf-vaswani`; empty where there is `code`.
        code: Python, with the names of `world.names` at hand.
        steps: what is done to the world before, each the name of a function of `world.py` and its arguments.
        stdin: of the command.
        words: one of them must be in the message of an error that Python code raises.
        refused: whether it must be refused; `None` where either will do.
        keep: files of the user's own, as glob patterns, which must be there still, under whatever name.
        writes: what else may change where the input is accepted, as glob patterns below the sandbox.
        plant: Python that is executed first, for tests of this harness.
    """

    name: str
    argv: tuple[str, ...] = ()
    code: str = ""
    steps: tuple[tuple, ...] = ()
    stdin: bytes = b""
    words: tuple[str, ...] = ()
    refused: bool | None = None
    keep: tuple[str, ...] = ("*mine*",)
    writes: tuple[str, ...] = ()
    seconds: int = SECONDS
    plant: str = ""


@dataclass
class Outcome:
    """What came of an input: its exit status, its output, and each thing that must not be as (kind, what)."""

    input: Input
    status: int | str
    output: str
    problems: list[tuple[str, str]] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        command = self.input.code or f"hf-vaswani {shlex.join(self.input.argv)}".encode(errors="replace").decode()
        lines = [f"{self.input.name}  [{self.status}]", *(f"    {step}" for step in self.did), f"    $ {command}"]
        lines += [f"    {kind}: {what}" for kind, what in self.problems]
        return "\n".join([*lines, *(f"    | {line[:300]}" for line in self.output.strip().splitlines()[-4:])])


def prepare(folder: Path) -> None:
    """Import everything that commands import, in a worker."""
    os.environ |= ENVIRONMENT | {"HF_HOME": str(folder / "hf"), "HOME": str(folder), "MPLCONFIGDIR": str(folder)}
    import torch

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages([str(PACKAGE)], "hf_vaswani."):
        importlib.import_module(module.name)


def make_world(folder: Path) -> None:
    """Make the world that all inputs start from; in a worker."""

    def execute(argv: list[str]) -> Outcome:
        case = Input("world", tuple(argv), seconds=120, plant=NOTE_IMPORTS)
        status, output, _ = in_child(case, place)
        return Outcome(case, status, output)

    place = folder / "world"
    (place / "work").mkdir(parents=True)
    os.chdir(place / "work")
    place.with_suffix(".stdin").write_bytes(b"")
    world.make(place, execute)


@functools.cache
def warm_up(folder: Path) -> None:
    """Import what the commands that made the world imported on their way, and load models, once for all inputs."""
    for name in (folder / "world.imports").read_text().split():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    world.loaded(folder / "world" / "work")
    gc.collect()
    gc.freeze()  # else each child would look through all of that, and copy it


def run(case: Input, folder: Path, place: Path | None = None) -> Outcome:
    """One input, in a fresh copy of the world of `folder`.

    Args:
        place: where that copy is made and stays; by default it is removed.
    """
    warm_up(folder)
    sandbox = place or folder / f"sandbox-{os.getpid()}"
    remove(sandbox)
    shutil.copytree(folder / "world", sandbox, symlinks=True)
    try:
        os.chdir(sandbox / "work")
        did = [said for name, *arguments in case.steps if (said := getattr(world, name)(*arguments))]
        (sandbox.with_suffix(".stdin")).write_bytes(case.stdin)
        digests: dict[tuple, str] = {}
        before, began = snapshot(sandbox, digests), time.monotonic()
        status, output, crash = in_child(case, sandbox)
        outcome = Outcome(case, status, output, did=did, seconds=time.monotonic() - began)
        outcome.problems = judge(case, status, output, crash) + harm(
            case, status, before, snapshot(sandbox, digests), sandbox
        )
        return outcome
    finally:
        os.chdir(folder)
        if place is None:
            remove(sandbox)


def in_child(case: Input, sandbox: Path) -> tuple[int | str, str, str]:
    """Exit status or how it died, what it wrote to standard error (and at the end of standard output), and the
    traceback of the error that a piece of Python raised."""
    streams = {name: sandbox.with_suffix(f".{name}") for name in ("stdin", "stdout", "stderr", "crash")}
    process = os.fork()
    if process == 0:
        try:
            os.setsid()
            for number, name in enumerate(("stdin", "stdout", "stderr")):
                flags = os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                os.dup2(os.open(streams[name], flags, 0o600), number)
            streams["crash"].write_text("")
            be_ordinary(sandbox)
            status = execute(case, sandbox, streams["crash"])
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            status = BROKEN
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(status)
    status = wait(process, case.seconds)
    texts = {name: streams[name].read_bytes().decode("utf-8", "replace") for name in ("stdout", "stderr", "crash")}
    return status, texts["stderr"] or texts["stdout"][-2000:], texts["crash"]


def wait(process: int, seconds: int) -> int | str:
    """The status of a child, which is killed with all of its children after so many seconds."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pid, status = os.waitpid(process, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else signal.Signals(-code).name
        time.sleep(0.004)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "hang"


def be_ordinary(sandbox: Path) -> None:
    """Give up the rights of root, memory and files without end, and the network."""
    sys.stdin, sys.stdout = (open(number, mode, encoding="utf-8") for number, mode in enumerate("rw"))  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    os.environ |= {"HF_VASWANI_CACHE": str(sandbox / "cache"), "HOME": str(sandbox / "home")}
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for limit, value in {"AS": used + MEMORY, "FSIZE": LARGEST_FILE, "CORE": 0}.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{limit}"), (value, value))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if os.geteuid() == 0:  # no capabilities: files that are read-only are that for root too
        header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None).capset(header, data):
            raise OSError("the rights of root cannot be given up")

    def connect(*arguments):
        raise OSError("there is no network in this test")

    socket.socket.connect = connect


def execute(case: Input, sandbox: Path, crash: Path) -> int:
    """What the interpreter does with a command or a script, its exit status included."""
    if case.plant:
        exec(case.plant, {})
    try:
        if case.code:
            world.execute(case.code, sandbox.parent / "world" / "work")
            return 0
        from hf_vaswani.cli import main

        return main(list(case.argv))
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException as error:
        traceback.print_exc()
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        crash.write_text("\n".join([*(kind.__name__ for kind in type(error).__mro__), "", *files]))
        return (
            1 if any(file != "input" and Path(__file__).parent not in Path(file).parents for file in files) else BROKEN
        )


def judge(case: Input, status: int | str, output: str, crash: str) -> list[tuple[str, str]]:
    """What is wrong with a status and what was said."""
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
    elif status not in (0, 2) and not (status == 1 and case.argv[0] == "train"):
        problems.append(("status", str(status)))
    elif status and not any(line.lower().partition("error: ")[2] for line in lines):
        problems.append(("no message", lines[-1][:200]))
    elif status and (found := [word for word in UNCLEAR if word in output]):
        problems.append(("unclear", f"{found[0]!r} in: {lines[-1][:200]}"))
    if case.refused is not None and case.refused == (status == 0):
        problems.append(("accepted" if case.refused else "refused", "and must not be"))
    return problems


def judge_error(case: Input, output: str, crash: str) -> list[tuple[str, str]]:
    """What is wrong with an exception; those that come from far away of this package's code are not its own."""
    kinds, _, places = crash.partition("\n\n")
    if not kinds or str(PACKAGE) not in places:
        return []
    kinds, message = kinds.splitlines(), output[output.rfind("Traceback (most recent call last)") :]
    if not {"ValueError", "TypeError"} & set(kinds):
        return [("traceback", where(output))]
    said = message[message.rfind("\n  File ") :].partition(f"{kinds[0]}:")[2].lower()
    if case.words and not any(word.lower() in said for word in case.words):
        return [("unnamed", f"{where(output)} does not name {' or '.join(case.words)}")]
    return []


def where(output: str) -> str:
    """The last line of a traceback and the last place in this package's own code, or in any."""
    lines = output.strip().splitlines()
    places = [line.strip() for line in lines if line.strip().startswith("File ")]
    own = [place.replace(f"{PACKAGE}/", "") for place in places if str(PACKAGE) in place] or places or [""]
    error = next((line for line in reversed(lines) if line and not line.startswith((" ", "\t"))), "")
    return f"{error[:200]}  ({own[-1]})"


def snapshot(folder: Path, digests: dict[tuple, str]) -> dict[str, tuple]:
    """Each path below a folder: its kind, its rights, and what a file holds or a link points to.

    Args:
        digests: of files by what the system says of them, which is other once they are written to; more are added.
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
    except PermissionError:  # for who is not root
        return "unreadable"


def harm(case: Input, status: int | str, before: dict, after: dict, sandbox: Path) -> list[tuple[str, str]]:
    """What was lost, changed or left behind that must not be."""
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


def written(case: Input, status: int | str, sandbox: Path) -> tuple[list[str], list[str]]:
    """The paths that a command may make, and those that it may replace or remove, relative to the sandbox."""
    if case.code:
        return ([*case.writes], []) if status == 0 else ([], [])
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
        own.append("curves.png")  # of several
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


def remove(folder: Path) -> None:
    """A folder with all that is in it, whatever its rights."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(os.path.join(place, name)):
                os.chmod(os.path.join(place, name), 0o700)
    shutil.rmtree(folder, ignore_errors=True)
