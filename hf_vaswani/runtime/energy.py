"""The energy that a training takes, as far as the machine measures it; nothing is estimated.

CPUs count theirs in Linux' power capping framework (RAPL, Intel's and AMD's; only root may read it on most machines),
NVIDIA's GPUs in NVML, where the package nvidia-ml-py is installed. A counter is of the whole device, whoever uses it.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

POWERCAP = Path("/sys/class/powercap")
# RAPL counters begin anew after 60 kJ or more, which takes no machine less than minutes.
INTERVAL_SECONDS = 10.0


@dataclass(frozen=True)
class Counter:
    """An energy counter of a device.

    Attributes:
        kind: "cpu" or "gpu".
        read: gives the joules counted so far; whatever it raises means that it cannot be read.
        range: joules after which it begins at 0 again; `None` where it does not.
    """

    kind: str
    read: Callable[[], float]
    range: float | None = None


def energy_counters(device: torch.device, gpus: int, powercap: Path = POWERCAP) -> list[Counter]:
    """The counters of this machine's CPUs and of the GPUs that a training uses on it.

    Args:
        device: that the training runs on.
        gpus: how many of that kind it uses on this machine, the first ones.
    """
    return cpu_counters(powercap) + (nvidia_counters(gpus) if device.type == "cuda" else [])


def cpu_counters(powercap: Path = POWERCAP) -> list[Counter]:
    """A counter for each CPU package, cores and caches together; none unless all of them can be read.

    Other zones (cores, memory, the platform) are parts of a package or hold it, and `intel-rapl-mmio` is the same
    package once more.
    """
    counters = []
    try:
        for zone in sorted(powercap.glob("intel-rapl:*")):
            if not (zone / "name").read_text().startswith("package-"):
                continue
            highest = int((zone / "max_energy_range_uj").read_text()) / 1e6
            counter = Counter("cpu", lambda file=zone / "energy_uj": int(file.read_text()) / 1e6, highest)
            counter.read()
            counters.append(counter)
    except (OSError, ValueError):
        return []
    return counters


def nvidia_counters(gpus: int) -> list[Counter]:
    """A counter for each of the first visible GPUs; none unless all of them can be read."""
    try:
        import pynvml

        pynvml.nvmlInit()
        counters = []
        for number in range(gpus):
            # NVML numbers all GPUs of the machine, whichever CUDA_VISIBLE_DEVICES shows.
            uuid = str(torch.cuda.get_device_properties(number).uuid)
            handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")
            read = lambda handle=handle: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3  # noqa: E731
            read()
            counters.append(Counter("gpu", read))
        return counters
    except Exception:  # the package, the driver or the counter is not there, each with errors of its own
        return []


class EnergyMeter:
    """Adds up what counters count while the block runs, in a thread, which misses no counter's new beginning.

    Args:
        before: joules and seconds by kind, of earlier runs of the same training.
    """

    def __init__(self, counters: list[Counter], before: dict[str, list[float]]):
        self._counters = counters
        self._before = before
        self._joules = {counter.kind: 0.0 for counter in counters}
        self._lock, self._stopped = threading.Lock(), threading.Event()

    def __enter__(self) -> "EnergyMeter":
        self._started = time.monotonic()
        self._last = self._read()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        if self._counters:
            self._thread.start()
        return self

    def __exit__(self, *error) -> None:
        self._stopped.set()

    def total(self) -> dict[str, list[float]]:
        """Joules and measured seconds of all runs, by kind: `{"cpu": [1200.0, 60.0]}`.

        A kind of which a counter has failed in this run stands where it stood before.
        """
        measured, seconds = self._advance(), time.monotonic() - self._started
        total = {kind: list(values) for kind, values in self._before.items()}
        for kind, joules in measured.items():
            before = total.get(kind, [0.0, 0.0])
            total[kind] = [before[0] + joules, before[1] + seconds]
        return total

    def _follow(self) -> None:
        while not self._stopped.wait(INTERVAL_SECONDS):
            self._advance()

    def _advance(self) -> dict[str, float]:
        """Count up to now; the joules of this run, by kind."""
        with self._lock:
            readings = self._read()
            for counter, last, now in zip(self._counters, self._last, readings):
                if last is None or now is None:
                    self._joules.pop(counter.kind, None)
                elif counter.kind in self._joules:
                    self._joules[counter.kind] += joules_between(last, now, counter.range)
            self._last = readings
            return dict(self._joules)

    def _read(self) -> list[float | None]:
        return [_value(counter) for counter in self._counters]


def joules_between(last: float, now: float, range: float | None) -> float:
    """The joules that a counter counted from one reading to the next.

    Args:
        range: joules after which it begins at 0 again. Where one without a range has begun again, as GPUs' do with
            their driver, nobody knows what it had counted before: nothing is added.
    """
    if now >= last:
        return now - last
    return 0.0 if range is None else range - last + now


def _value(counter: Counter) -> float | None:
    try:
        return counter.read()
    except Exception:  # each library raises its own kinds
        return None
