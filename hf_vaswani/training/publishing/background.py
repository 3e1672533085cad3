"""Uploads in the background, one at a time: whatever becomes of them, the run that they are of goes on."""

import shutil
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread

from ...errors import InputError, reason

# An upload is given up after some minutes and what a slow line takes for its bytes: a connection may die unnoticed.
LEAST_SECONDS, BYTES_PER_SECOND = 600.0, 100_000


@dataclass(frozen=True)
class Upload:
    """A folder that holds what becomes one commit; deleted once that is made.

    Attributes:
        folder: of the files.
        what: in words, for messages: "step 500".
    """

    folder: Path
    what: str


class BackgroundUploads:
    """Makes uploads in a thread of its own, in the order in which they are given.

    Args:
        send: makes one commit of a folder.
        skips: whether one that waits is left out when a newer one comes.
        kept: pattern of the sub-folders of an upload that failed, or was left out, which go with the next one.
        report: called with a line about each that failed.
    """

    def __init__(self, send: Callable[[Upload], None], skips: bool, kept: str, report: Callable[[str], None]):
        self._send, self._skips, self._kept, self._report = send, skips, kept, report
        self._lock, self._waiting, self._thread = Lock(), deque[Upload](), None
        self._failed: Upload | None = None

    def add(self, upload: Upload) -> None:
        """Have an upload made once the earlier ones are."""
        with self._lock:
            if self._skips:
                self._drop_waiting()
            self._waiting.append(upload)
            if self._thread is None:
                # Not waited for at the end of the process: a commit that is broken off was never made.
                self._thread = Thread(target=self._work, name="uploads to the Hub", daemon=True)
                self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether there are uploads that are neither made nor given up."""
        return self._thread is not None

    def wait(self) -> None:
        """Return once all uploads are made or given up. Ctrl-C interrupts that."""
        while (thread := self._thread) is not None:
            # Without a limit, Ctrl-C would not be seen everywhere.
            thread.join(0.5)

    def drop_waiting(self) -> None:
        """Leave out the uploads that are not under way."""
        with self._lock:
            self._drop_waiting()

    def retry(self) -> None:
        """Make the last upload again, if it failed, and wait for it."""
        if self._failed:
            failed, self._failed = self._failed, None
            self.add(failed)
            self.wait()

    def _drop_waiting(self) -> None:
        while self._waiting:
            shutil.rmtree(self._waiting.popleft().folder, ignore_errors=True)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                upload = self._waiting.popleft()
            self._make(upload)

    def _make(self, upload: Upload) -> None:
        if self._failed:
            for left in self._failed.folder.glob(self._kept):
                if not (upload.folder / left.name).exists():
                    left.rename(upload.folder / left.name)
            shutil.rmtree(self._failed.folder, ignore_errors=True)
            self._failed = None
        try:
            within(seconds_for(upload.folder.rglob("*")), lambda: self._send(upload))
        except Exception as error:  # none may end the run
            self._failed = upload
            why = error if isinstance(error, InputError) else reason(error)
            self._report(
                f"warning: {upload.what} was not uploaded. {why} Training goes on; the next upload tries again"
            )
        else:
            shutil.rmtree(upload.folder, ignore_errors=True)


def seconds_for(files: Iterable[Path]) -> float:
    """After which the upload of files is given up."""
    return LEAST_SECONDS + sum(file.stat().st_size for file in files) / BYTES_PER_SECOND


def within(seconds: float, work: Callable[[], None]) -> None:
    """Do some work in a thread, for at most some time.

    Raises:
        InputError: if it takes longer; the thread ends with the process.
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
        raise InputError(f"The Hub has not answered within {seconds:,.0f} seconds.")
    if raised:
        raise raised[0]
