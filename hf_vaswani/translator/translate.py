"""Translates many texts with a loaded model, through the translation pipeline, with a progress bar."""

import sys
from typing import TYPE_CHECKING

from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..text.inputs import check_many
from .pipeline import TranslationPipeline

if TYPE_CHECKING:
    from .reranking import Reranker


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    batch_size: int | None = None,
    show_progress: bool = False,
    utility: str | None = None,
    samples: int | None = None,
    reranker: "Reranker | None" = None,
    **options,
) -> list[str]:
    """Translate texts.

    Texts that are too long for the model are cut, with a warning that counts them, so that one long text among
    thousands does not stop the others. The model stays on its device, and in training mode if it is in training mode.

    Args:
        texts: sentences; the order is kept.
        batch_size: maximum number of sentences in a batch; default: as many as the size of the model allows.
        show_progress: show a progress bar, if there is a terminal.
        utility, samples: as in [`translate_mbr`]; with a utility, it chooses the translations.
        reranker: if given, it chooses among the translations of the beam.
        options: arguments of the pipeline, of its call and of `model.generate()`, such as `num_beams=4`.

    Returns:
        One translation for each text.
    """
    check_many("texts", texts)
    texts = list(texts)
    # A model that is spread over several devices cannot be moved to one.
    device = None if getattr(model, "hf_device_map", None) else model.device
    # The pipeline must know the languages from the start to choose T5's prefix.
    own = {name: options.pop(name) for name in ("src_lang", "tgt_lang", "engine", "quantize") if name in options}
    translator = TranslationPipeline(model, tokenizer=tokenizer, device=device, **own)
    with tqdm(total=len(texts), unit=" sentences", disable=not (show_progress and sys.stderr.isatty())) as bar:
        options = {"truncation": True, "batch_size": batch_size, "progress": bar.update, **options}
        if utility:
            from .mbr import DEFAULT_SAMPLES, translate_mbr

            rankings = translate_mbr(translator, texts, samples or DEFAULT_SAMPLES, utility, **options)
            return [ranking[0].text for ranking in rankings]
        if reranker:
            from .reranking import beam_candidates

            options |= beam_candidates(model, options.get("num_beams"))
            return [ranked[0]["translation_text"] for ranked in reranker(texts, translator(texts, **options))]
        return [result["translation_text"] for result in translator(texts, **options)]
