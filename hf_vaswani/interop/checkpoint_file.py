"""Reads a foreign PyTorch checkpoint as data: its pickle may hold tensors, containers and named options, no code.

`torch.load(weights_only=True)` refuses every class that is not on a list. A checkpoint of fairseq or OpenNMT keeps its
options in an `argparse.Namespace`, which only holds attributes and is therefore allowed; a few classes of theirs are
replaced by one that only keeps what was pickled.
"""

import argparse
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..errors import InputError, reason


class Inert:
    """Stands for an object of a class that is known but not wanted: keeps what was pickled of it, and does nothing."""

    state = None

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        self.state = state


# Classes of older versions of fairseq and OpenNMT-py, of which at most the state is read.
KNOWN_CLASSES = (
    "fairseq.meters.AverageMeter",
    "fairseq.meters.TimeMeter",
    "fairseq.meters.StopwatchMeter",
    "onmt.inputters.text_dataset.TextMultiField",
    "onmt.inputters.text_dataset._feature_tokenize",
    "onmt.inputters.inputter.AlignField",
    "onmt.inputters.inputter.make_src",
    "onmt.inputters.inputter.make_tgt",
    "onmt.inputters.inputter.parse_align_idx",
    "torchtext.data.field.Field",
    "torchtext.data.field.RawField",
    "torchtext.vocab.Vocab",
    "functools.partial",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy.dtype",
    "numpy.ndarray",
    "_codecs.encode",
)
ALLOWED_CLASSES = [argparse.Namespace, set, *((Inert, name) for name in KNOWN_CLASSES)]
_lock = threading.Lock()


def read_checkpoint(path: str) -> dict:
    """The contents of a file that `torch.save` wrote, on the CPU.

    Raises:
        InputError: where the file is truncated, is no checkpoint, or holds classes that are not allowed, by name.
    """
    try:
        with _allowed_classes():
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        classes = foreign_classes(error)
        if classes:
            raise InputError(
                f"{path}: its pickle holds {classes}, which no weights need and which could run code; nothing of it "
                "was executed, and it was not read. Save the weights and options again without it."
            ) from None
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from None
        raise InputError(
            f"{path} cannot be read: it is truncated, or no checkpoint that torch.save wrote "
            f"({reason(error)[:100]}). Copy it again from where it came from."
        ) from None


def foreign_classes(error: Exception) -> str:
    """The classes that PyTorch refused to load, as it names them in its error."""
    return ", ".join(sorted(set(re.findall(r"GLOBAL ([\w.]+)", str(error)))))


@contextmanager
def _allowed_classes() -> Iterator[None]:
    """PyTorch's list of allowed classes is one for the whole process: afterwards it is as it was."""
    with _lock:
        before = torch.serialization.get_safe_globals()
        try:
            with torch.serialization.safe_globals(ALLOWED_CLASSES):
                yield
        finally:
            torch.serialization.add_safe_globals(before)
