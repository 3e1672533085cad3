"""What is uploaded of a run to the Hub, and when: at checkpoints, in the background, and at its end.

At a checkpoint, its files are set aside, so that the run can delete its own, and their upload is queued. Uploads never
affect training: the steps are the same whether they succeed or fail.
"""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock, Thread

from huggingface_hub.utils import disable_progress_bars
from safetensors.torch import load_file

from ...data.tokenizers.tokenizer import save_tokenizer
from ...errors import InputError, TrainingError, reason
from ...hub.model_card import unfinished_card
from ...hub.pull import LAST_CHECKPOINT
from ...hub.push import files_to_push, push
from ...hub.repository import MODEL_PATTERNS, commit_folder
from ...models.families import family_of
from ...records import RESULTS_FILE
from ...runtime.processes import print_main
from ..build import TrainingSetup
from ..checkpoints.artifacts import CARD_FILE, FIGURES, UPLOADS
from ..checkpoints.checkpoint import make_readable, step_of, weights_file
from ..optimization.progress import StepListener
from ..optimization.weights import set_weights
from ..setup.final_model import FinalModel
from ..setup.splits import model_languages
from .portable_run import write_portable_run

# The time limit of an upload is some minutes, plus what its bytes take on a slow line: a connection may die unnoticed.
LEAST_SECONDS, BYTES_PER_SECOND = 600.0, 100_000


@dataclass(frozen=True)
class Upload:
    """A folder whose files become one commit; it is deleted once the commit is made.

    Attributes:
        folder: contains the files.
        what: a description for messages: "step 500".
    """

    folder: Path
    what: str


class BackgroundUploads:
    """Makes uploads in a thread of its own; a new one takes the place of one that is still waiting.

    Args:
        send: makes one commit from an upload.
        report: called with a line about each upload that failed.
    """

    def __init__(self, send: Callable[[Upload], None], report: Callable[[str], None]):
        self._send, self._report = send, report
        self._lock = Lock()
        self._thread: Thread | None = None
        self._waiting: Upload | None = None
        self._failed: Upload | None = None

    def add(self, upload: Upload) -> None:
        """Add an upload, to be made after the one in progress."""
        with self._lock:
            _discard(self._waiting)
            self._waiting = upload
            if self._thread is None:
                # A daemon thread, which does not delay the end of the process: an interrupted commit is never made.
                self._thread = Thread(target=self._work, name="uploads to the Hub", daemon=True)
                self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether an upload is in progress or waiting."""
        return self._thread is not None

    def wait(self) -> None:
        """Wait until all uploads are made or have failed. Ctrl-C interrupts the wait."""
        while (thread := self._thread) is not None:
            # Without a timeout, some systems would not notice Ctrl-C.
            thread.join(0.5)

    def drop_waiting(self) -> None:
        """Drop the upload that has not started."""
        with self._lock:
            _discard(self._waiting)
            self._waiting = None

    def retry(self) -> None:
        """Retry the last upload if it failed, and wait for it."""
        if self._failed:
            failed, self._failed = self._failed, None
            self.add(failed)
            self.wait()

    def _work(self) -> None:
        while True:
            with self._lock:
                upload, self._waiting = self._waiting, None
                if upload is None:
                    self._thread = None
                    return
            self._make(upload)

    def _make(self, upload: Upload) -> None:
        _discard(self._failed)
        self._failed = None
        try:
            within(seconds_for(upload.folder.rglob("*")), lambda: self._send(upload))
        except Exception as error:  # no failed upload may end the run
            self._failed = upload
            why = error if isinstance(error, InputError) else reason(error)
            self._report(
                f"warning: {upload.what} was not uploaded. {why} Training continues; the next upload will retry"
            )
        else:
            _discard(upload)


def _discard(upload: Upload | None) -> None:
    if upload:
        shutil.rmtree(upload.folder, ignore_errors=True)


def seconds_for(files: Iterable[Path]) -> float:
    """The time limit for uploading files, in seconds."""
    return LEAST_SECONDS + sum(file.stat().st_size for file in files) / BYTES_PER_SECOND


def within(seconds: float, work: Callable[[], None]) -> None:
    """Do some work in a thread, with a time limit.

    Raises:
        InputError: if it takes longer; the thread then continues, at most until the process ends.
        Exception: whatever the work raises.
    """
    raised: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise InputError(f"The Hub did not respond within {seconds:,.0f} seconds.")
    if raised:
        raise raised[0]


class HubUploads(StepListener):
    """Uploads the model, and possibly the run, at each checkpoint, as the recipe's `hub_strategy` says.

    Used only in the main process.
    """

    def __init__(self, setup: TrainingSetup, repository: str):
        self.setup, self.repository = setup, repository
        self.folder = setup.folder / UPLOADS
        self.strategy, self.revision = setup.recipe.training.hub_strategy, setup.recipe.training.hub_revision
        self.with_run = self.strategy == "checkpoint"
        self.background = BackgroundUploads(self.commit, report=print_main)
        # After a skipped step, two checkpoints may have the same name.
        self.numbers = count(1)
        # The folder may have been left by a run that was killed.
        shutil.rmtree(self.folder, ignore_errors=True)
        disable_progress_bars()

    def on_checkpoint(self, checkpoint: Path) -> None:
        """Set the model, and the run if it is uploaded too, aside, and queue their upload."""
        if self.strategy == "end":
            return
        step = step_of(checkpoint)
        folder = self.folder / f"{checkpoint.name}-{next(self.numbers)}"
        try:
            self.write_model(folder, checkpoint)
            if self.with_run:
                write_portable_run(self.setup.folder, folder / LAST_CHECKPOINT, self.setup.recipe.training)
        except Exception as error:  # such as a full disk, which is no reason to end the run
            shutil.rmtree(folder, ignore_errors=True)
            print_main(f"warning: step {step:,} was not uploaded: {reason(error)}. Training continues")
        else:
            self.background.add(Upload(folder, f"step {step:,}"))

    def write_model(self, folder: Path, checkpoint: Path) -> None:
        """Write the model of a checkpoint to a folder that `from_pretrained` can load.

        Raises:
            OSError, SafetensorError: if it cannot be written.
        """
        setup, config = self.setup, self.setup.model.config
        final_model = FinalModel(setup.recipe, setup.tokenizer, config, setup.model.generation_config)
        set_weights(final_model.model, load_file(weights_file(checkpoint)))
        folder.mkdir(parents=True)
        final_model.finish()(folder)
        save_tokenizer(setup.tokenizer, folder)
        is_adapter = setup.recipe.peft.is_used and not setup.recipe.peft.merge
        languages = [code for code in model_languages(setup.recipe.data) if code]
        card = unfinished_card(
            self.repository,
            step_of(checkpoint),
            languages,
            setup.recipe.training.license,
            is_adapter,
            type(setup.model).__name__ if family_of(config) else None,
        )
        (folder / CARD_FILE).write_bytes(card.encode())
        make_readable(folder)

    def commit(self, upload: Upload) -> None:
        """Upload what was set aside, in one commit.

        Raises:
            InputError: as in [`commit_folder`].
        """
        files = [file.relative_to(upload.folder).as_posix() for file in upload.folder.rglob("*") if file.is_file()]
        # Files about an earlier model, or from an earlier checkpoint, must not remain next to this one.
        replaced = [RESULTS_FILE, f"{FIGURES}/*", *MODEL_PATTERNS]
        if self.with_run:
            replaced.append(f"{LAST_CHECKPOINT}/*")
        message = f"Training in progress, {upload.what}"
        commit_folder(self.repository, upload.folder, files, message, self.revision, replaced)

    def wait(self) -> None:
        """Wait for the uploads in progress or waiting, after a signal has stopped the run."""
        if self.background.is_busy:
            print_main("The state is saved. Waiting for its upload to the Hub; Ctrl-C cancels it")
            self.background.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def finish(self) -> None:
        """Upload the finished model, after the uploads of the run that are still due.

        Raises:
            TrainingError: if that fails; the model is in the output folder.
        """
        arguments, folder = self.setup.recipe.training, self.setup.folder
        revision = f" --revision {self.revision}" if self.revision else ""
        again = f"To upload it: hf-vaswani push {folder} {self.repository}{revision}"
        try:
            if not self.with_run:
                self.background.drop_waiting()
            if self.background.is_busy:
                print_main("Waiting for the last upload to the Hub; Ctrl-C cancels it")
            self.background.wait()
            if self.with_run:
                self.background.retry()
            within(
                seconds_for(folder / name for name in files_to_push(folder)),
                lambda: push(folder, self.repository, arguments.hub_private_repo, self.revision, "End of training"),
            )
            print_main(f"The model is on the Hub: {self.repository}")
        except InputError as error:
            raise TrainingError(
                f"The model is finished and saved in {folder}, but not on the Hub. {error}\n{again}"
            ) from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"The model is finished and saved in {folder}, but not on the Hub. {again}"
            ) from None
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
