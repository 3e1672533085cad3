"""The recipe's section `peft`: a LoRA adapter (Hu et al. 2021), trained instead of the model's own weights."""

from typing import Literal

from ...configuration.keys import Key, Section

# PEFT's name for all linear layers.
ALL_LINEAR = "all-linear"


class PeftArguments(Section):
    """A LoRA adapter to train on a frozen model, with PEFT's names; without `r`, there is none."""

    section = "peft"

    r: int | None = Key(None, "rank of the adapter's matrices, such as 8", ge=1, le=65_536)
    lora_alpha: int = Key(8, "scale of the adapter: its product is multiplied by lora_alpha / r", ge=1, le=1_000_000)
    lora_dropout: float = Key(0.0, "dropout of the adapter's input", ge=0, lt=1)
    target_modules: list[str] = Key(
        [ALL_LINEAR],
        "modules that get an adapter, by name: [q_proj, v_proj]; all-linear: all linear layers inside the stacks",
    )
    bias: Literal["none", "all", "lora_only"] = Key(
        "none", "biases to train as well; lora_only: those of the modules with an adapter"
    )
    use_rslora: bool = Key(False, "divide lora_alpha by the square root of r instead, for high ranks (rsLoRA)")
    use_dora: bool = Key(False, "also train the magnitude of each column of the weights (DoRA); slower")
    modules_to_save: list[str] = Key(
        [], "modules to train and save in full, by name: [embed_tokens], [final_layer_norm]"
    )
    merge: bool = Key(
        False,
        "save an ordinary model with the adapter merged into its weights, instead of the adapter alone",
        resumable=True,
    )

    @property
    def is_used(self) -> bool:
        """Whether an adapter is trained."""
        return self.r is not None

    @property
    def targets(self) -> str | list[str]:
        """`target_modules` in the form that PEFT accepts."""
        return ALL_LINEAR if self.target_modules == [ALL_LINEAR] else self.target_modules
