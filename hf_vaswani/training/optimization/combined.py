"""Lets several optimizers, each for a part of a model's parameters, be used as one."""

from typing import Any

from torch.optim import Optimizer


class CombinedOptimizer(Optimizer):
    """Optimizers that step together, and whose parameter groups and state are those of one optimizer.

    Args:
        parts: the optimizers, which share no parameters.
    """

    def __init__(self, parts: list[Optimizer]):
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._share()

    def step(self, closure=None) -> None:
        """Let each part do its step. `closure` has no effect."""
        for part in self.parts:
            part.step()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # `load_state_dict` puts other groups and another state in place of those that the parts know.
        super().__setstate__(state)
        self._share()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self.parts:
            part.param_groups = [next(groups) for _ in part.param_groups]
            part.state = self.state
