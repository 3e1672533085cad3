"""The model that a run saves: with an adapter, merged, or plain."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from transformers import GenerationConfig, PreTrainedTokenizerBase

from ...core.configuration_vaswani import VaswaniConfig
from ...generation.fast_model import VaswaniForConditionalGeneration
from ...models.families import family_of
from ..recipe.recipe import Recipe
from .tokenizer_and_model import make_model
from .training_batches import TEXT_FIELDS


class FinalModel:
    """A separate model for a run's final weights, since the run's own may be compiled, wrapped or sharded.

    Attributes:
        model: created on the CPU; weights must be put into it before [`finish`].
    """

    def __init__(
        self,
        recipe: Recipe,
        tokenizer: PreTrainedTokenizerBase,
        config: VaswaniConfig,
        generation_config: GenerationConfig,
    ):
        self._recipe, self._adapted = recipe, None
        if recipe.peft.is_used:
            from .adapter import with_adapter

            self._adapted = with_adapter(make_model(recipe, tokenizer), recipe)
            self.model = self._adapted.get_base_model()
            if recipe.peft.merge and not family_of(config):  # an adapter is loaded with the config of its base
                for name in TEXT_FIELDS:
                    setattr(self.model.config, name, getattr(config, name))
        elif family_of(config):  # its buffers are not among the weights of a checkpoint
            self.model = make_model(recipe, tokenizer)
        else:
            self.model = VaswaniForConditionalGeneration(config)
        self.model.generation_config = generation_config

    def finish(self) -> Callable[[Path], None]:
        """Merge the adapter if the recipe says so; no weights can be put into the model after that.

        Returns:
            A function that writes the model, or its adapter, to a folder.
        """
        if self._adapted is None:
            return self.model.save_pretrained
        from .adapter import merged, save_adapter

        if not self._recipe.peft.merge:
            return partial(save_adapter, self._adapted)
        self.model, self._adapted = merged(self._adapted), None
        return self.model.save_pretrained
