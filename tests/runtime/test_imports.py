import importlib
import inspect
import sys

import pytest

from hf_vaswani.runtime.imports import after_import


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that has not been imported."""
    (tmp_path / "watched_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "watched_module"
    sys.modules.pop("watched_module", None)


def test_callback_waits_for_the_import_and_sees_the_complete_module(module):
    seen = []
    after_import(module, lambda: seen.append(sys.modules[module].value))
    assert seen == []
    importlib.import_module(module)
    assert seen == [1]


def test_callback_is_called_immediately_if_the_module_is_already_imported(module):
    importlib.import_module(module)
    seen = []
    after_import(module, lambda: seen.append(1))
    assert seen == [1]


def test_callback_registered_twice_is_called_once(module):
    seen = []

    def callback():
        seen.append(1)

    after_import(module, callback)
    after_import(module, callback)
    importlib.import_module(module)
    importlib.reload(sys.modules[module])
    assert seen == [1]


def test_callback_waits_for_an_import_that_succeeds(module, tmp_path):
    file = tmp_path / "watched_module.py"
    file.write_text("1 / 0\n")
    seen = []
    after_import(module, lambda: seen.append(1))
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(module)
    assert seen == []
    file.write_text("value = 'at last'\n")
    importlib.invalidate_caches()
    importlib.import_module(module)
    assert seen == [1]


def test_missing_module_still_raises_its_error():
    after_import("no_such_module_at_all", lambda: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_at_all")


def test_source_of_a_watched_module_can_be_read(module):
    after_import(module, lambda: None)
    assert inspect.getsource(importlib.import_module(module)) == "value = 1\n"
