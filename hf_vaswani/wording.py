"""Numbers in messages: "1 pair", "2,000 pairs", "line 3", "lines 3 to 5"."""


def counted(number: int, noun: str) -> str:
    """A number and what it counts, in the plural but for 1.

    Args:
        noun: in the singular, its last word the one that takes the plural.
    """
    plural = noun + ("es" if noun.endswith(("ch", "s", "x")) else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def line_range(first: int, last: int) -> str:
    """Lines of a file by their numbers, both ends included."""
    return f"line {first:,}" if first == last else f"lines {first:,} to {last:,}"
