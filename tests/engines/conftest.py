"""Fixtures of the engines' tests."""

from ..interop.test_folders import separate

__all__ = ["separate"]
