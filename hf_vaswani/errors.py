"""The error for what a user can put right: a missing file, a wrong key, a folder in use.

Commands print its message alone, without a traceback, and leave with exit status 2.
"""


class InputError(ValueError):
    """Input that cannot be used. The message says what is wrong, where, and what to do; a line for each fault."""

    @classmethod
    def of(cls, faults: list[str]) -> "InputError":
        """All faults of one input in one error."""
        return cls("\n".join(faults))
