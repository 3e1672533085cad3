"""Runs a function once another package's module has been imported: now, if it has been already, or later."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


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
