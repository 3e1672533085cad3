"""Runs a function once another package's module has been imported: at once, or later, when somebody does."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def after_import(name: str, callback: Callable[[], object]) -> None:
    """Call the function after the module has been imported; now, if it has been already.

    Args:
        name: of the module, such as `transformers.pipelines`.
        callback: what it raises is raised by the import.
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
    """Finds watched modules as Python would, and adds the callbacks to what executes them."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Callable[[], object]]] = {}
        self.searching: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, `None` for a module that nobody watches."""
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

        # On this one loader, not in a loader around it: others ask it for source and resources.
        loader.exec_module = exec_module
