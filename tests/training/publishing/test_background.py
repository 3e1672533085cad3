"""Uploads in the background, with a Hub that is as slow or as broken as the test needs."""

from threading import Event

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.training.publishing import uploads as uploads_module
from hf_vaswani.training.publishing.uploads import BackgroundUploads, Upload, within


class Sending:
    """Records what is sent; waits until it may proceed, and fails for the uploads in `failing`."""

    def __init__(self):
        self.sent, self.failing, self.contents = [], set(), {}
        self.started, self.may_proceed = Event(), Event()
        self.may_proceed.set()

    def __call__(self, upload):
        self.started.set()
        assert self.may_proceed.wait(30)
        self.sent.append(upload.what)
        self.contents[upload.what] = {path.name for path in upload.folder.iterdir()}
        if upload.what in self.failing:
            raise InputError("The Hub is down.")


@pytest.fixture
def sending():
    return Sending()


@pytest.fixture
def upload(tmp_path):
    def make(what, *folders):
        for folder in folders or ("model",):
            (tmp_path / what / folder).mkdir(parents=True)
        return Upload(tmp_path / what, what)

    return make


def uploads_of(sending, reported):
    return BackgroundUploads(sending, reported.append)


def test_newest_upload_replaces_one_that_waits(sending, upload, tmp_path):
    sending.may_proceed.clear()
    uploads = uploads_of(sending, [])
    uploads.add(upload("a"))
    assert sending.started.wait(30)
    uploads.add(upload("b"))
    uploads.add(upload("c"))
    assert uploads.is_busy
    sending.may_proceed.set()
    uploads.wait()
    assert sending.sent == ["a", "c"] and not uploads.is_busy
    assert list(tmp_path.iterdir()) == []


def test_last_upload_is_retried_only_if_it_failed(sending, upload):
    uploads = uploads_of(sending, [])
    uploads.add(upload("a"))
    uploads.wait()
    uploads.retry()
    assert sending.sent == ["a"]
    sending.failing = {"b"}
    uploads.add(upload("b"))
    uploads.wait()
    sending.failing = set()
    uploads.retry()
    uploads.retry()
    assert sending.sent == ["a", "b", "b"]


def test_upload_that_never_ends_is_abandoned_and_the_next_is_sent(sending, upload, monkeypatch):
    monkeypatch.setattr(uploads_module, "LEAST_SECONDS", 0.1)
    reported = []
    uploads = uploads_of(sending, reported)
    sending.may_proceed.clear()
    uploads.add(upload("a"))
    uploads.wait()
    assert "did not respond within" in reported[0]
    sending.may_proceed.set()
    uploads.add(upload("b"))
    uploads.wait()
    assert "b" in sending.sent


def test_any_exception_of_an_upload_is_a_warning(upload):
    reported = []
    uploads = uploads_of(lambda upload: 1 / 0, reported)
    uploads.add(upload("a"))
    uploads.wait()
    assert "division by zero" in reported[0]


def test_within_raises_the_exception_of_its_function():
    with pytest.raises(ZeroDivisionError):
        within(30, lambda: 1 / 0)
