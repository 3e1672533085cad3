"""The table of a report that says what became of each source: readable with many sources and many reasons."""

import html
from collections import Counter
from collections.abc import Mapping

STYLE = """
.sources th { vertical-align: bottom; padding: 0 .4rem .25rem } .sources th.reason { height: 8.5rem }
.sources th.reason span { writing-mode: vertical-rl; transform: rotate(180deg); font-weight: normal }
.sources td { padding: .2rem .4rem; white-space: nowrap } .sources td:first-child { white-space: normal }
.sources tr.all td { border-top: 2px solid #222; font-weight: bold }
"""


def source_table(by_source: Mapping[str, Counter[str]], reasons: list[str]) -> str:
    """Rows of sources, and a last one of all; for each reason the share of the source's pairs, the darker the more.

    Args:
        by_source: for each source the numbers of pairs read, kept, and left out by reason.
        reasons: those that have columns.
    """
    heads = "".join(f'<th class="reason"><span>{html.escape(reason)}</span></th>' for reason in reasons)
    rows = [f"<tr><th>source</th><th class=n>pairs</th><th class=n>kept</th>{heads}</tr>"]
    every = sum(by_source.values(), Counter())
    for name, own in [*by_source.items(), *([("all", every)] if len(by_source) > 1 else [])]:
        cells = "".join(_cell(own[reason], own["read"]) for reason in reasons)
        rows.append(
            f"<tr{' class=all' if own is every else ''}><td>{html.escape(name)}</td><td class=n>{own['read']:,}</td>"
            f"<td class=n>{own['kept'] / own['read']:.1%}</td>{cells}</tr>"
        )
    return (
        "<h2>By source</h2><p>The share of each source's pairs that was left out, by reason.</p>"
        f'<style>{STYLE}</style><table class="sources">{"".join(rows)}</table>'
    )


def _cell(pairs: int, read: int) -> str:
    if not pairs:
        return "<td></td>"
    share = pairs / read
    text = f"{share:.1%}" if share >= 0.0005 else "<0.1%"
    return (
        f'<td class=n style="background: rgb(204 68 68 / {min(share * 1.5, 0.75):.2f})" title="{pairs:,} pairs">'
        f"{html.escape(text)}</td>"
    )
