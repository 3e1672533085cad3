"""Uploads in the background, one at a time: whether they succeed or fail, their run continues."""

import shutil
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread

from ...errors import InputError, reason

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
    """Makes uploads in a thread of its own, in the order in which they are added.

    Args:
        send: makes one commit from an upload.
        skips: whether to drop a waiting upload when a newer one is added.
        kept: pattern of the subfolders of a failed upload that are uploaded with the next one.
        report: called with a line about each upload that failed.
    """

    def __init__(self, send: Callable[[Upload], None], skips: bool, kept: str, report: Callable[[str], None]):
        self._send, self._skips, self._kept, self._report = send, skips, kept, report
        self._lock, self._waiting, self._thread = Lock(), deque[Upload](), None
        self._failed: Upload | None = None

    def add(self, upload: Upload) -> None:
        """Add an upload, to be made after the earlier ones."""
        with self._lock:
            if self._skips:
                self._drop_waiting()
            self._waiting.append(upload)
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
        """Drop the uploads that have not started."""
        with self._lock:
            self._drop_waiting()

    def retry(self) -> None:
        """Retry the last upload if it failed, and wait for it."""
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
        except Exception as error:  # no failed upload may end the run
            self._failed = upload
            why = error if isinstance(error, InputError) else reason(error)
            self._report(
                f"warning: {upload.what} was not uploaded. {why} Training continues; the next upload will retry"
            )
        else:
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
