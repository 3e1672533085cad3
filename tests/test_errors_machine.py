"""What the machine refuses, memory, disks and connections, is recognized whichever library says so."""

import errno
import sys
import types

import pytest
import torch

from hf_vaswani.errors import InputError, is_network_error, is_out_of_memory, reason, write_remedy
from hf_vaswani.runtime import imports

TORCH = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to …"

MOVED = "If its folder was moved or removed, put it back"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(TORCH),
        RuntimeError("unable to mmap 6592280 bytes from file <model.safetensors>: Cannot allocate memory (12)"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libonnxruntime.so.1: failed to map segment from shared object"),
    ],
)
def test_out_of_memory_is_recognized_and_said_in_words(error):
    assert is_out_of_memory(error)
    assert reason(error) == "there is not enough memory"


def test_out_of_memory_is_recognized_as_a_cause():
    error = ValueError("no model")
    error.__cause__ = MemoryError()
    assert is_out_of_memory(error)


def test_other_errors_are_not_out_of_memory():
    for error in (RuntimeError("shapes do not match"), ImportError("No module named 'onnx'"), KeyError("memory")):
        assert not is_out_of_memory(error)


@pytest.mark.parametrize("library", ["httpx", "httpx2", "httpcore2", "requests", "huggingface_hub.errors"])
def test_errors_of_all_http_libraries_are_network_errors(library):
    own_class = type("ConnectTimeout", (Exception,), {"__module__": f"{library}._exceptions"})
    assert is_network_error(own_class("timed out"))


def test_only_errors_of_connections_are_network_errors():
    assert is_network_error(ConnectionResetError())
    assert not is_network_error(ValueError("no such split"))


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "Free up disk space"),
        (OSError(errno.ENOENT, "No such file or directory"), MOVED),
        (OSError(errno.EACCES, "Permission denied"), "Change its permissions"),
        (RuntimeError("I/O error: No such file or directory (os error 2)"), MOVED),
        (RuntimeError("I/O error: No space left on device (os error 28)"), "Free up disk space"),
        (MemoryError(), "Free up memory"),
    ],
)  # fmt: skip
def test_what_to_do_about_an_unwritable_file_depends_on_why(error, remedy):
    assert write_remedy(error) == remedy


@pytest.fixture
def failing_import(monkeypatch):
    def fail_with(error: ImportError) -> None:
        def import_module(name: str) -> types.ModuleType:
            raise error

        monkeypatch.setattr(imports.importlib, "import_module", import_module)

    return fail_with


def test_a_library_is_called_missing_only_if_it_is(failing_import):
    failing_import(ModuleNotFoundError("No module named 'onnxruntime'", name="onnxruntime"))
    with pytest.raises(InputError, match="^onnxruntime is not installed. Install"):
        imports.import_extra("onnxruntime", "onnx")
    failing_import(ImportError("libgomp.so.1: cannot open shared object file", name="onnxruntime"))
    with pytest.raises(InputError, match="^onnxruntime cannot be imported .libgomp.so.1: cannot open"):
        imports.import_extra("onnxruntime", "onnx")


def test_an_import_without_memory_is_no_missing_library(failing_import):
    failing_import(ImportError("onnxruntime.so: failed to map segment from shared object"))
    with pytest.raises(ImportError, match="failed to map"):
        imports.import_extra("onnxruntime", "onnx")


def test_ray_that_takes_too_long_to_start_is_one_error(monkeypatch):
    from hf_vaswani.runtime.ray_session import ray_session

    def init(**settings):
        raise Exception("The current node timed out during startup.")  # as Ray does

    ray = types.SimpleNamespace(is_initialized=lambda: False, init=init, shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(InputError, match="^Ray cannot be started: The current node timed out"), ray_session():
        pass
