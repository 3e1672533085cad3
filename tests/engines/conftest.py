"""Fixtures of the engines' tests."""

from ..interop.test_import_and_export import separate

__all__ = ["separate"]
