"""Writes folders of imported and exported models, either complete or not at all."""

from pathlib import Path

from transformers import PreTrainedTokenizerBase

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.tokenizers.tokenizer import save_tokenizer
from ..files import check_new, new_folder
from ..text.languages import own_languages
from . import marian
from .sources import read_source


def import_checkpoint(source: str | Path, output: str | Path, *, vocabularies: str | Path | None = None) -> str | None:
    """Import another system's model and tokenizer into a folder, ready for `from_pretrained` and `pipeline`.

    Args:
        source: folder, `.pt` file or Hub id, as for `import_model`.
        output: folder to create; if it exists, it must be empty.
        vocabularies: folder with fairseq's `dict.LANGUAGE.txt`; default: the checkpoint's folder.

    Returns:
        A description of how the tokenizer splits text; None if the source has no tokenizer.

    Raises:
        InputError: as in `import_model`, or `output` cannot be written.
    """
    check_new(output)
    conversion = read_source(source, vocabularies)
    tokenizer = conversion.make_tokenizer()
    model = conversion.build()
    # Marian's languages are only in its tokenizer.
    model.config.source_language, model.config.target_language = own_languages(model.config, tokenizer)
    with new_folder(output) as folder:
        model.save_pretrained(folder)
        if tokenizer is not None:
            save_tokenizer(tokenizer, folder)
    return conversion.splitting if tokenizer is not None else None


def export_checkpoint(
    model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase | None, output: str | Path
) -> None:
    """Export a model and its tokenizer to a folder, as a MarianMT model of transformers.

    A tokenizer with two vocabularies becomes two plain ones, in the subfolders `source_tokenizer` and
    `target_tokenizer`. With this package, or with `trust_remote_code=True`, `AutoTokenizer` joins them again;
    otherwise it finds no tokenizer, so that it cannot use the source tokenizer for both sides.

    Raises:
        InputError: lists everything that Marian cannot represent; or `output` cannot be written.
    """
    with new_folder(output) as folder:
        write_marian(model, tokenizer, folder)


def write_marian(
    model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase | None, folder: Path
) -> None:
    """Do the same as [`export_checkpoint`], but in a folder that already exists."""
    marian.write(model).save_pretrained(folder)
    if tokenizer is not None:
        save_tokenizer(tokenizer, folder, beside_other_model=True)
