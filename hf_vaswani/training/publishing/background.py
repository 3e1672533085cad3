"""Uploads in the background, one at a time: whether they succeed or fail, their run continues."""

import shutil
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
