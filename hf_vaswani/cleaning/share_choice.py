"""How much text to keep, by the losses of small models that were trained on shares of it."""

import html
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import counted

# Differences beyond this quantile are more than chance.
QUANTILE = 0.975


@dataclass(frozen=True)
class Share:
    """A share of the text.

    Attributes:
        limit: its least score.
        pairs: how many it has.
        losses: for each seed, the loss of the model in nats per character of the held-out targets.
    """

    limit: float
    pairs: int
    losses: Sequence[float] = ()

    @property
    def mean(self) -> float:
        """The mean of the losses."""
        return statistics.fmean(self.losses)

    @property
    def deviation(self) -> float:
        """The sample standard deviation of the losses."""
        return statistics.stdev(self.losses)


@dataclass(frozen=True)
class ShareChoice:
    """Which share is kept, and why.

    Attributes:
        limit: the least score of the share.
        default: the least score without measuring.
        shares: in descending order of size; empty if nothing was measured.
        sample: how many pairs a seed draws from the text, of which its models are trained on shares.
        steps: of each run.
        held_out: how many pairs the models were scored on.
        is_trusted: whether these pairs were given.
        overlap: how many pairs no model was trained on, as they are in the trusted text.
        problem: why nothing was measured, to end a sentence; or "".
    """

    limit: float
    default: float
    shares: Sequence[Share] = ()
    sample: int = 0
    steps: int = 0
    held_out: int = 0
    is_trusted: bool = False
    overlap: int = 0
    problem: str = ""

    @property
    def runs(self) -> int:
        """How many models were trained."""
        return sum(len(share.losses) for share in self.shares)

    def lines(self) -> list[str]:
        """The choice in a few lines."""
        if self.problem:
            found = [f"  least score {self.limit:.7g}, not measured: {self.problem}"]
        else:
            best = min(self.shares, key=lambda share: share.mean)
            kept = next(share for share in self.shares if share.limit == self.limit)
            usual = next(share for share in self.shares if share.limit == self.default)
            found = [
                f"  least score {self.limit:.7g}, by {counted(self.runs, 'small model')} of {self.steps:,} steps: "
                f"{_loss(kept)} nats per character of {counted(self.held_out, self._pair)}"
                + (f"; {_loss(usual)} with {self.default:.7g}" if kept is not usual else "")
            ]
            if best is not kept:
                found.append(f"  the lowest loss, {_loss(best)} with {best.limit:.7g}, differs no more than by chance")
        if self.overlap:
            found.append(
                f"  {counted(self.overlap, 'pair')} that the trusted text has, too: no small model was trained on them"
            )
        return found

    def as_markdown(self) -> str:
        """The choice for a card."""
        if self.problem:
            return f"The least score was not measured: {self.problem}."
        head, *rows = self._table()
        lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
        return "\n".join([f"{self._about()}\n", *lines])

    def as_html(self) -> str:
        """A section of the report."""
        if self.problem:
            return f"<h2>How much to keep</h2><p>Not measured: {html.escape(self.problem)}.</p>"
        head, *rows = self._table()
        body = "".join(
            "<tr>" + "".join(f"<td class=n>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        heads = "".join(f"<th class=n>{html.escape(cell)}</th>" for cell in head)
        return f"<h2>How much to keep</h2><p>{self._about()}</p><table><tr>{heads}</tr>{body}</table>"

    @property
    def _pair(self) -> str:
        return "trusted pair" if self.is_trusted else "held-out pair"

    def _about(self) -> str:
        overlap = f" {counted(self.overlap, 'pair')} of the text are also in the trusted text, and in no share."
        return (
            f"Small models, each trained with {self.steps:,} steps on a share of {counted(self.sample, 'pair')} that "
            f"pass all other rules: loss in nats per character of {counted(self.held_out, self._pair)}; ± is the "
            f"standard deviation over seeds.{overlap * bool(self.overlap)}"
        )

    def _table(self) -> list[list[str]]:
        seeds = len(self.shares[0].losses)
        rows = [["least score", "pairs", *(f"seed {number}" for number in range(1, seeds + 1)), "mean", "±", ""]]
        for share in self.shares:
            notes = ["kept"] * (share.limit == self.limit) + ["default"] * (share.limit == self.default)
            numbers = [f"{value:.4f}" for value in (*share.losses, share.mean, share.deviation)]
            rows.append([f"{share.limit:.7g}", f"{share.pairs:,}", *numbers, ", ".join(notes)])
        return rows


def best_limit(shares: Sequence[Share], default: float) -> float:
    """The least score of the share with the lowest mean loss.

    If others do not differ from it by more than chance, it is that of the default, if it is among them, or else of the
    largest.

    Args:
        shares: with the losses of two seeds or more.
    """
    from scipy.stats import t

    best, seeds = min(shares, key=lambda share: share.mean), len(shares[0].losses)
    # The standard deviation within shares, and the standard error of a difference of two means.
    deviation = math.sqrt(statistics.fmean(share.deviation**2 for share in shares))
    margin = float(t.ppf(QUANTILE, len(shares) * (seeds - 1))) * deviation * math.sqrt(2 / seeds)
    equal = [share for share in shares if share.mean - best.mean <= margin]
    return default if any(share.limit == default for share in equal) else max(equal, key=lambda one: one.pairs).limit


def _loss(share: Share) -> str:
    return f"{share.mean:.4f} ± {share.deviation:.4f}"
