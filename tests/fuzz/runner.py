"""Runs one input in its own process and folder, and reports anything it did that it must not do.

A worker imports the package once and forks for each input, so that one that hangs or crashes affects no other.
The child runs in the folder `work` of a fresh copy of the world (`world.py`), without root privileges or a network,
and with limits on time, memory and file sizes. The entire copy is compared before and after.
"""

import contextlib
import ctypes
import functools
import gc
import importlib
import os
import pkgutil
import resource
import shlex
import shutil
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from . import world
from .oracle import BROKEN, PACKAGE, harm, judge, snapshot

SECONDS, MEMORY, LARGEST_FILE = 120, 4 << 30, 64 << 20
# Read by the package and its libraries at import, so each worker sets these before.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg",
    "ACCELERATE_USE_CPU": "true", "COLUMNS": "120",
}  # fmt: skip
NOTE_IMPORTS = """
import os, sys
def leave(status, exit=os._exit):
    with open("../../world.imports", "a") as file:
        file.write("\\n".join(sys.modules) + "\\n")
    exit(status)
os._exit = leave
"""


@dataclass(frozen=True)
class Input:
    """A command line or a piece of Python code, and the steps that change the world before it.

    Attributes:
        name: unique and readable.
        argv: arguments of `hf-vaswani`; empty if there is `code`.
        code: Python code, which can use the names of `world.names`.
        steps: changes to the world before the input, each the name of a function of `world.py` and its arguments.
        stdin: standard input of the command.
        words: one of them must be in the message of an error that Python code raises.
        refused: whether the input must be rejected; `None` if either is fine.
        keep: the user's own files, as glob patterns, which must still exist under some name.
        writes: what else may change if the input is accepted, as glob patterns below the sandbox.
        seconds: time limit.
        memory: bytes that it may use.
        encoding: of its standard output and error.
        plant: Python code that is executed first, for tests of this harness.
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
    memory: int = MEMORY
    encoding: str = "utf-8"
    plant: str = ""


@dataclass
class Outcome:
    """The result of an input: its exit status, its output, and each problem as (kind, description)."""

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
    """Import everything that commands import; runs in a worker."""
    os.environ |= ENVIRONMENT | {"HF_HOME": str(folder / "hf"), "HOME": str(folder), "MPLCONFIGDIR": str(folder)}
    import torch

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages([str(PACKAGE)], "hf_vaswani."):
        if not module.name.startswith("hf_vaswani.app."):  # which needs gradio
            importlib.import_module(module.name)


def make_world(folder: Path) -> None:
    """Make the world that all inputs start from; runs in a worker."""

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
    """Import what the commands that made the world imported, and load models, once for all inputs."""
    for name in (folder / "world.imports").read_text().split():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    world.load(folder / "world" / "work")
    gc.collect()
    gc.freeze()  # otherwise each child would scan all of that, and so copy it


def run(case: Input, folder: Path, place: Path | None = None) -> Outcome:
    """Run one input in a fresh copy of the world in `folder`.

    Args:
        place: where the copy is made and kept; by default it is removed.
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
        seconds, after = time.monotonic() - began, snapshot(sandbox, digests)
        problems = judge(case, status, output, crash) + harm(case, status, before, after, sandbox)
        return Outcome(case, status, output, problems, did, seconds)
    finally:
        os.chdir(folder)
        if place is None:
            remove(sandbox)


def in_child(case: Input, sandbox: Path) -> tuple[int | str, str, str]:
    """The exit status or how the child died, its standard error (or else the end of its standard output), and the
    exception classes and files of the traceback of an error."""
    streams = {name: sandbox.with_suffix(f".{name}") for name in ("stdin", "stdout", "stderr", "crash")}
    process = os.fork()
    if process == 0:
        try:
            os.setsid()
            for number, name in enumerate(("stdin", "stdout", "stderr")):
                flags = os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                os.dup2(os.open(streams[name], flags, 0o600), number)
            streams["crash"].write_text("")
            be_ordinary(sandbox, case)
            status = execute(case, streams["crash"])
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            status = BROKEN
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(status)
    status = wait(process, case.seconds)
    texts = {
        name: streams[name].read_bytes().decode(case.encoding, "replace") for name in ("stdout", "stderr", "crash")
    }
    return status, texts["stderr"] or texts["stdout"][-2000:], texts["crash"]


def wait(process: int, seconds: int) -> int | str:
    """The status of a child, which is killed after so many seconds together with the processes that it started."""
    deadline, pid = time.monotonic() + seconds, 0
    while not pid and time.monotonic() < deadline:
        time.sleep(0.004)
        pid, status = os.waitpid(process, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if not pid:
        os.waitpid(process, 0)
        return "hang"
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else signal.Signals(-code).name


def be_ordinary(sandbox: Path, case: Input) -> None:
    """Give up root privileges and the network, and limit memory and file sizes."""
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=case.encoding)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=case.encoding, errors="backslashreplace")  # noqa: SIM115
    os.environ |= {"HF_VASWANI_CACHE": str(sandbox / "cache"), "HOME": str(sandbox / "home")}
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for limit, value in {"AS": used + case.memory, "FSIZE": LARGEST_FILE, "CORE": 0}.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{limit}"), (value, value))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if os.geteuid() == 0:  # without capabilities, read-only files are read-only for root too
        header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None).capset(header, data):
            raise OSError("the rights of root cannot be given up")

    def connect(*arguments):
        raise OSError("there is no network in this test")

    socket.socket.connect = connect


def execute(case: Input, crash: Path) -> int:
    """Do what the interpreter does with a command or a script; returns its exit status."""
    if case.plant:
        exec(case.plant, {})
    try:
        if case.code:
            world.execute(case.code)
            return 0
        from hf_vaswani.cli import main

        return main(list(case.argv))
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException as error:
        traceback.print_exc()
        # The function of registration.py around transformers' `pipeline` passes on what that raises.
        frames = traceback.extract_tb(error.__traceback__)
        files = [frame.filename for frame in frames if Path(frame.filename).name != "registration.py"]
        crash.write_text("\n".join([*(kind.__name__ for kind in type(error).__mro__), "", *files]))
        own = {"input", world.__file__, __file__}
        return BROKEN if own.issuperset(files) else 1


def remove(folder: Path) -> None:
    """Remove a folder with everything in it, whatever its permissions."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(os.path.join(place, name)):
                os.chmod(os.path.join(place, name), 0o700)
    shutil.rmtree(folder, ignore_errors=True)
