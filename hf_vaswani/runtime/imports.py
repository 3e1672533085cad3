"""Imports optional libraries when they are needed, calls functions after other imports, and silences log messages."""

import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from ..errors import InputError, is_out_of_memory, reason


def import_extra(library: str, extra: str | None = None) -> ModuleType:
    """Import an optional library, which this package's extra of the same name installs unless `extra` names another.

    Raises:
        InputError: the library is not installed, or its installation is broken.
        ImportError: there is not enough memory.
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        if is_out_of_memory(error):
            raise
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == library
        what = "is not installed" if is_missing else f"cannot be imported ({reason(error)})"
        raise InputError(f'{library} {what}. Install it with: pip install "hf-vaswani[{extra or library}]"') from None


def after_import(name: str, callback: Callable[[], object]) -> None:
    """Call a function after a module has been imported; now, if it has been already.

    Args:
        name: the module's name, such as `transformers.pipelines`.
        callback: the function; what it raises is raised by the import.
    """
    if name in sys.modules:
        callback()
        return
    finder = next((finder for finder in sys.meta_path if isinstance(finder, _Watcher)), None)
    if finder is None:
        finder = _Watcher()
        sys.meta_path.insert(0, finder)
    callbacks = finder.callbacks.setdefault(name, [])
    if callback not in callbacks:
        callbacks.append(callback)


class _Watcher(MetaPathFinder):
    """Finds watched modules as Python would, and makes their loaders call the callbacks."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Callable[[], object]]] = {}
        self.searching: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec from the other finders; `None` for a module that is not watched."""
        if fullname not in self.callbacks or fullname in self.searching:
            return None
        self.searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.searching.discard(fullname)
        if spec is not None and spec.loader is not None:
            self._call_after(spec.loader, fullname)
        return spec

    def _call_after(self, loader: Loader, name: str) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for callback in self.callbacks.pop(name, ()):
                callback()

        # Patches this one loader rather than wrapping it: other code asks it for source and resources.
        loader.exec_module = exec_module


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """Silence a logger's warnings within the block, such as advice for callers in Python."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
