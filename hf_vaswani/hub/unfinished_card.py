"""The card of a model whose run has not ended: how many steps it has made, and no scores."""

from huggingface_hub import ModelCardData

from ..errors import counted
from .markdown import fenced, plain
from .metadata import hub_languages
from .usage import usage_code


def unfinished_card(name: str, step: int, languages: list[str], license: str | None, is_adapter: bool = False) -> str:
    """A model card: metadata in YAML and text in Markdown.

    Args:
        name: the model's name on the Hub.
        step: optimizer steps done.
        languages: codes of the source and target languages that are known.
        license: the model's license, by its Hub identifier.
        is_adapter: whether the repository holds a PEFT adapter instead of a model.
    """
    metadata = ModelCardData(
        language=hub_languages(languages),
        license=license,
        library_name="peft" if is_adapter else "transformers",
        pipeline_tag="translation",
        tags=["vaswani", "transformer", "encoder-decoder"],
    )
    return f"""\
---
{metadata.to_yaml()}
---

# {plain(name)}

A translation model that is still being trained with `hf_vaswani`: its weights after {counted(step, "step")}. The
finished model will have a full model card with scores.

## Use

{fenced(usage_code(name, "…"), "python")}

Without the package, leave out its import and pass `trust_remote_code=True` to `pipeline`.
"""
