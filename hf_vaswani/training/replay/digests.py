"""Digests of the inputs and results of a step: equal bits give equal digests on every machine."""

import hashlib
import json
from collections.abc import Iterable

from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn

from ...data.sources.parallel_files import Pair
from ...hub.trail import TextDigest
from ..optimization.sharding import full_tensor
from ..optimization.steps import StepBatches
from ..optimization.weights import tensors_digest

# The most ranges of a text, and the characters in the short digests of ranges and of batches.
RANGES, RANGE_DIGEST, BATCHES_DIGEST = 50, 8, 16


def model_digest(model: nn.Module) -> str:
    """Digest of all parameters of a model, including those under an adapter. Must be called in every process."""
    return tensors_digest({name: full_tensor(value.detach()) for name, value in model.named_parameters()})


def batches_digest(processes: Accelerator, batches: StepBatches) -> str:
    """Digest of the token ids in a step's batches, over all processes. Must be called in every process."""
    parts = {
        f"{number}.{name}": tensor
        for number, batch in enumerate(batches.micro_batches)
        for name, tensor in batch.items()
        if not name.startswith("soft_label")  # whose teacher has a digest
    }
    own = tensors_digest(parts)
    return (own if processes.num_processes == 1 else _joined(gather_object([own])))[:BATCHES_DIGEST]


def text_digest(digest: str, pairs: Iterable[Pair] | None, length: int) -> TextDigest:
    """The digest of a text, together with digests of consecutive ranges of its pairs.

    Args:
        digest: of the whole text.
        pairs: of the text; `None` if they are streamed.
        length: the number of pairs.
    """
    if pairs is None:
        return TextDigest(digest=digest)
    size = max(-(-length // RANGES), 1)
    ranges, rows = [], hashlib.sha256()
    for number, pair in enumerate(pairs, start=1):
        rows.update(json.dumps(pair).encode())
        if number % size == 0 or number == length:
            ranges.append(rows.hexdigest()[:RANGE_DIGEST])
            rows = hashlib.sha256()
    return TextDigest(pairs=length, digest=digest, ranges=ranges, range_length=size)


def _joined(digests: list[str]) -> str:
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
