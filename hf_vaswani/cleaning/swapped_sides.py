"""What to do about pairs whose sides are in each other's language."""

from ..text.languages import is_same_language
from .report import CleanReport

# The share of a source's pairs from which it is worth a word, and from which the whole source is the wrong way round.
LEAST_SHARE, WHOLE_SHARE = 0.01, 0.5


def swapped_sides(report: CleanReport, languages: tuple[str, str]) -> list[str]:
    """Advice about swapped sides, a sentence for each source that has them.

    Args:
        languages: codes that the user has given to source and target.
    """
    found = []
    if all(own and is_same_language(own, other) for own, other in zip(report.languages, languages[::-1])):
        found.append(
            f"the source looks like {languages[1]}, and the target like {languages[0]}: swap the sides, or "
            "--source_language and --target_language"
        )
    for name, own in report.by_source.items():
        share, what = own["swapped"] / own["read"], f"{name}: {own['swapped']:,} of {own['read']:,} pairs"
        if share >= WHOLE_SHARE:
            found.append(
                f"{what} have their sides swapped and are left out: name its sides the other way round (in a recipe: "
                "reversed: true)"
            )
        elif share >= LEAST_SHARE:
            found.append(f"{what} have their sides swapped and are left out; --swap_sides swaps them back")
    return found
