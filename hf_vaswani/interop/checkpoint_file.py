"""Reads another system's PyTorch checkpoint as data: its pickle may hold tensors, containers and options, not code.

`torch.load(weights_only=True)` rejects all classes that are not allowlisted. Checkpoints of fairseq and OpenNMT keep
their options in an `argparse.Namespace`, which is allowed since it only holds attributes. A few of these systems' own
classes are replaced by a stand-in that only keeps the pickled state.
"""

import argparse

import torch

from ..errors import InputError
from ..files import AGAIN
from ..models.model_loading import foreign_classes


class Inert:
    """Stands in for an object of a known class: keeps its pickled state and does nothing else."""

    state = None

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        self.state = state


# Classes in checkpoints of older versions of fairseq and OpenNMT-py; only their state is used, if anything.
KNOWN_CLASSES = (
    "fairseq.meters.AverageMeter", "fairseq.meters.TimeMeter", "fairseq.meters.StopwatchMeter",
    "onmt.inputters.text_dataset.TextMultiField", "onmt.inputters.text_dataset._feature_tokenize",
    "onmt.inputters.inputter.AlignField", "onmt.inputters.inputter.parse_align_idx",
    "onmt.inputters.inputter.make_src", "onmt.inputters.inputter.make_tgt",
    "torchtext.data.field.Field", "torchtext.data.field.RawField", "torchtext.vocab.Vocab",
    "numpy.core.multiarray._reconstruct", "numpy.core.multiarray.scalar",
    "numpy._core.multiarray._reconstruct", "numpy._core.multiarray.scalar",
    "numpy.dtype", "numpy.ndarray", "functools.partial", "_codecs.encode",
)  # fmt: skip
ALLOWED_CLASSES = {argparse.Namespace, set, *((Inert, name) for name in KNOWN_CLASSES)}


def read_checkpoint(path: str) -> dict:
    """Read a file written by `torch.save`, with tensors on the CPU.

    Raises:
        InputError: the file is truncated, is not a checkpoint, or holds forbidden classes, which the error lists.
    """
    try:
        # Without those that are allowed already, which would be forbidden afterwards.
        with torch.serialization.safe_globals(list(ALLOWED_CLASSES - set(torch.serialization.get_safe_globals()))):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        if classes := foreign_classes(error):
            raise InputError(
                f"{path}: its pickle contains {classes}, which weights do not need and which could run code; nothing "
                "was run or read. Save the weights and options again without it."
            ) from None
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from None
        raise InputError(f"{path} is not a checkpoint written by torch.save, or it is truncated. {AGAIN}") from None
