"""The steps around a search, one file each: `before(segments)` and, in the opposite order, `after(segments)`."""

from typing import Protocol

from ..segments import Segment


class Step(Protocol):
    """A step of a translation; each method returns the segments that continue, in the order of their texts."""

    def before(self, segments: list[Segment]) -> list[Segment]: ...

    def after(self, segments: list[Segment]) -> list[Segment]: ...


__all__ = ["Step"]
