"""Translating so that what goes wrong with one line, or with a batch too large for the memory, costs no other line."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Item, Result = TypeVar("Item"), TypeVar("Result")

SYSTEMATIC = 64


def translate_each(
    translate: Callable[[list[Item]], list[Result]],
    items: Sequence[Item],
    failed: Callable[[Exception], Result],
) -> list[Result]:
    """All items as `translate(items)` gives them. Where that raises, they are tried again in halves.

    Args:
        translate: a result for each item.
        failed: makes the result of an item that fails alone, of the exception.

    Raises:
        Exception: the last of those that `translate` raised, where 64 items or more came to nothing but exceptions:
            then it is not the items.
    """
    errors: list[Exception] = []

    def halves(items: list[Item]) -> list[Result]:
        try:
            return translate(items)
        except Exception as exception:
            # Kept without its frames, which hold the tensors of the batch that may have been too large.
            error = exception.with_traceback(None)
        if len(items) == 1:
            errors.append(error)
            if len(errors) == number >= SYSTEMATIC:
                raise error
            return [failed(error)]
        middle = len(items) // 2
        return halves(items[:middle]) + halves(items[middle:])

    items = list(items)
    number = len(items)
    return halves(items) if items else []
