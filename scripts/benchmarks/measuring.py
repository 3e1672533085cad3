"""How the benchmarks measure: all contestants in turn, each in its own process; also the machine's own peak."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import torch
import transformers

import hf_vaswani

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIDE, PRODUCTS = (8192, 20) if DEVICE == "cuda" else (2048, 3)


@dataclass(frozen=True)
class Row:
    """The measurements of one contestant.

    Attributes:
        speed: median of the rounds, in the table's unit per second.
        ratio: ratio to the first contestant's speed, the median of the ratios within each round.
        spread: the largest of those ratios minus the smallest, relative to the median.
        memory: the largest of the rounds' peaks, in MiB.
        peak_share: share of the machine's peak in matrix products of the same precision; `None` if not computed.
        notes: whatever else the contestant reported.
    """

    name: str
    speed: float
    ratio: float
    spread: float
    memory: float
    peak_share: float | None = None
    notes: str = ""


@dataclass(frozen=True)
class Table:
    title: str
    unit: str
    rows: Sequence[Row]

    def markdown(self) -> str:
        """The table as shown in the documentation."""
        base = self.rows[0].name
        lines = [
            f"{self.title}\n",
            f"| | {self.unit}/s | ratio to {base} | spread | peak MiB | share of peak | |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in self.rows:
            share = "" if row.peak_share is None else f"{row.peak_share:.0%}"
            lines.append(
                f"| {row.name} | {row.speed:,.1f} | {row.ratio:.2f} | {row.spread:.0%} | {row.memory:,.0f} | {share} "
                f"| {row.notes} |"
            )
        return "\n".join(lines) + "\n"


def in_own_process(file: str, *arguments: Any) -> dict[str, Any]:
    """Run a benchmark as a program with these arguments, and return the JSON object on the last line that it prints.

    Adds `memory`, its workers' included, unless the program reports its own.
    """
    command = [sys.executable, file, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment(), **pipes) as process:
        memory = TreeMemory(process.pid)
        output, errors = process.communicate()
        memory.stop()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{errors[-4000:]}")
    return {"memory": memory.peak, **json.loads(output.splitlines()[-1])}


class TreeMemory(Thread):
    """Memory in MiB of a process and its workers together, with the pages that they share counted once; on a GPU, what
    is taken of its memory since.

    Attributes:
        peak: the most that was seen; short peaks between two samples may be missed.
    """

    SECONDS = 0.2

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self.process, self.peak, self.ended = psutil.Process(pid), 0.0, Event()
        self.before = gpu_memory()
        self.start()

    def run(self) -> None:
        while not self.ended.wait(self.SECONDS):
            if DEVICE == "cuda":
                self.peak = max(self.peak, gpu_memory() - self.before)
                continue
            with suppress(psutil.Error):
                tree = [self.process, *self.process.children(recursive=True)]
                self.peak = max(self.peak, sum(self.memory(process) for process in tree))

    @staticmethod
    def memory(process: psutil.Process) -> float:
        try:
            return process.memory_full_info().pss / 2**20
        except psutil.Error:  # it has ended in the meantime
            return 0.0

    def stop(self) -> None:
        self.ended.set()
        self.join()


def gpu_memory() -> float:
    """What is taken of the memory of the GPU, by whatever process, in MiB; 0 without one."""
    if DEVICE == "cpu":
        return 0.0
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2**20


def wait_for_device() -> None:
    """Wait until the device has finished its work."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def environment() -> dict[str, str]:
    """The environment of the measured processes, in which they find the package and do not contact the Hub."""
    package = str(Path(hf_vaswani.__file__).parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    return {**os.environ, **offline, "PYTHONPATH": os.pathsep.join(paths)}


def compare(
    title: str, unit: str, names: Sequence[str], rounds: int, measure: Callable[[str], dict[str, Any]]
) -> Table:
    """Measure all contestants in turn, for a number of rounds.

    Args:
        names: the contestants; ratios are to the first.
        measure: returns `speed`, `memory` in MiB and, if known, `peak_share` and `notes`.
    """
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            results[name].append(measure(name))
            print(
                f"round {number + 1}: {name}: {results[name][-1]['speed']:,.1f} {unit}/s", file=sys.stderr, flush=True
            )
    rows = []
    for name in names:
        ratios = [own["speed"] / base["speed"] for own, base in zip(results[name], results[names[0]])]
        shares = [result["peak_share"] for result in results[name] if result.get("peak_share") is not None]
        ratio = statistics.median(ratios)
        rows.append(
            Row(
                name,
                speed=statistics.median(result["speed"] for result in results[name]),
                ratio=ratio,
                spread=(max(ratios) - min(ratios)) / ratio,
                memory=max(result["memory"] for result in results[name]),
                peak_share=statistics.median(shares) if shares else None,
                notes=results[name][-1].get("notes", ""),
            )
        )
    return Table(title, unit, rows)


def peak_memory() -> float:
    """Peak memory of this process in MiB. Not from `ru_maxrss`, which a process inherits from its parent."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def product_peak(dtype: torch.dtype) -> float:
    """FLOP/s of square matrix products on the GPU, or on all threads that torch uses: the most that a model could
    reach.
    """
    a, b = (torch.randn(SIDE, SIDE).to(DEVICE, dtype) for _ in range(2))
    best = 0.0
    for _ in range(4):
        wait_for_device()
        start = time.perf_counter()
        for _ in range(PRODUCTS):
            a @ b
        wait_for_device()
        best = max(best, PRODUCTS * 2 * SIDE**3 / (time.perf_counter() - start))
    return best


def machine() -> dict[str, Any]:
    """What a reader must know to compare results: processor, peaks, versions, date."""
    names = {"torch": torch, "transformers": transformers, "hf_vaswani": hf_vaswani}
    peaks = {str(dtype).removeprefix("torch."): product_peak(dtype) for dtype in (torch.float32, torch.bfloat16)}
    return {
        "date": date.today().isoformat(),
        "processor": torch.cuda.get_device_name() if DEVICE == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "gflops": {name: round(value / 1e9) for name, value in peaks.items()},
        "versions": {name: module.__version__ for name, module in names.items()},
    }


def processor() -> str:
    """The processor's name, and which instructions for 8-bit and 16-bit numbers it has."""
    file = Path("/proc/cpuinfo")
    if not file.exists():
        return platform.processor()
    lines = dict(line.split(":", 1) for line in file.read_text().split("\n\n")[0].splitlines() if ":" in line)
    facts = {key.strip(): value.strip() for key, value in lines.items()}
    flags = [flag for flag in ("avx512_bf16", "avx512_vnni", "amx_bf16") if flag in facts.get("flags", "").split()]
    return f"{facts.get('model name', 'unknown')} ({', '.join(flags) or 'none of avx512_bf16, avx512_vnni, amx_bf16'})"


def write(tables: Sequence[Table], path: Path) -> None:
    """Write all tables and a description of the machine as JSON."""
    path.write_text(json.dumps({"machine": machine(), "tables": [asdict(table) for table in tables]}, indent=1) + "\n")
