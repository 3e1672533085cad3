"""How texts are grouped: windows that are read at once, batches that are translated at once, and their sizes."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from transformers import PreTrainedModel

Item = TypeVar("Item")

FIRST_WINDOW, GROWTH, LAST_WINDOW = 128, 4, 4096
# What the decoder's caches may hold: source tokens * hypotheses * layers * d_model. More tokens gain no speed.
CPU_CACHE, CPU_TOKENS, CPU_ROWS = 12 * 2**20, 1536, 384
# Few texts are divided so that each core has batches of its own, but not into batches too small to be efficient.
CPU_BATCHES, LEAST_CPU_ROWS = 4, 128
DEVICE_CACHE, DEVICE_TOKENS = 2**30, 32768
# Logits of one step: 1 GiB in fp32, and there are several copies of them.
DEVICE_LOGITS = 2**28
FEW_ROWS = 4


def window_size(number: int) -> int:
    """The number of texts in a window, by its index: few at first, for early results, then more, for full batches."""
    return min(FIRST_WINDOW * GROWTH ** min(number, 10), LAST_WINDOW)


def token_batches(
    items: Iterable[Item], length: Callable[[Item], int], batch_tokens: int, batch_size: int | None = None
) -> Iterator[list[Item]]:
    """Items, sorted by length, in batches of at most `batch_tokens` tokens, padding included.

    Args:
        length: returns the number of tokens in an item; an item of more than `batch_tokens` is a batch of its own.
        batch_size: maximum number of items in a batch, `None` for any number.
    """
    batch: list[Item] = []
    longest = 0
    for item in items:
        longest = max(longest, length(item))
        if batch and ((len(batch) + 1) * longest > batch_tokens or len(batch) == batch_size):
            yield batch
            batch, longest = [], length(item)
        batch.append(item)
    if batch:
        yield batch


def default_batch_tokens(model: PreTrainedModel, rows: int) -> int:
    """The number of source tokens in a batch with which the decoder's caches take about as much memory in all models.

    Args:
        rows: number of hypotheses that are followed at once for each text.
    """
    decoder = model.config.get_text_config(decoder=True)
    values = decoder.num_hidden_layers * decoder.hidden_size * max(rows, FEW_ROWS)
    is_cpu = model.device.type == "cpu"
    return max(1, min((CPU_CACHE if is_cpu else DEVICE_CACHE) // values, CPU_TOKENS if is_cpu else DEVICE_TOKENS))


def default_batch_size(model: PreTrainedModel, rows: int, texts: int) -> int:
    """The maximum number of texts in a batch.

    On a CPU, more rows would only take more memory; elsewhere, their logits would take too much.

    Args:
        rows: number of hypotheses that are followed at once for each text.
        texts: number of texts to be translated. The size does not depend on the number of cores, for example, which
            may differ from machine to machine.
    """
    if model.device.type == "cpu":
        return max(1, min(max(texts * rows // CPU_BATCHES, LEAST_CPU_ROWS), CPU_ROWS) // rows)
    decoder = model.config.get_text_config(decoder=True)
    vocab_size = getattr(decoder, "decoder_vocab_size", None) or decoder.vocab_size
    return max(1, DEVICE_LOGITS // (vocab_size * rows))


__all__ = ["default_batch_size", "default_batch_tokens", "token_batches", "window_size"]
