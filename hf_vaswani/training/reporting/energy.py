"""The energy that a run takes, as measured by codecarbon, or estimated if the machine has no energy counters."""

from types import SimpleNamespace
from typing import Any

from ..checkpoints.progress import Progress
from ..listeners import StepListener

JOULES_PER_KWH = 3.6e6


class EnergyListener(StepListener):
    """Adds the energy that this machine's CPUs, GPUs and memory take, whoever uses them, to a run's progress.

    Without the package codecarbon (`pip install hf-vaswani[energy]`), nothing is measured.
    """

    def __init__(self):
        self._tracker: Any = None
        self._before: dict[str, list[float]] = {}
        self._total: dict[str, list[float]] = {}

    def on_run_begin(self, progress: Progress) -> None:
        try:
            from codecarbon import OfflineEmissionsTracker
        except ImportError:
            return
        self._before = self._total = progress.energy
        ignore = lambda *_: None  # noqa: E731
        # The country only affects emissions, which are not used.
        self._tracker = OfflineEmissionsTracker(
            country_iso_code="USA",
            output_methods=[],
            allow_multiple_runs=True,
            log_level="error",
            output_handlers=[SimpleNamespace(out=self._read, live_out=ignore, task_out=ignore, exit=ignore)],
        )
        self._tracker.start()

    def on_save(self, progress: Progress) -> None:
        if self._tracker:
            self._tracker.flush()  # passes its reading to `_read`
            progress.energy = self._total

    def on_run_end(self) -> None:
        if self._tracker:
            self._tracker.stop()

    def _read(self, total: Any, delta: Any) -> None:
        """Add the energy in this session, given in kWh, to that of earlier sessions of the run."""
        energy = {kind: list(values) for kind, values in self._before.items()}
        for kind in ("cpu", "gpu", "ram"):
            if kwh := getattr(total, f"{kind}_energy"):
                joules, seconds = energy.get(kind, [0.0, 0.0])
                energy[kind] = [joules + kwh * JOULES_PER_KWH, seconds + total.duration]
        self._total = energy
