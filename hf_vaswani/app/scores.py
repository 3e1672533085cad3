"""BLEU and chrF2 of a text's translations against given references, as `hf-vaswani evaluate` computes them."""

from ..errors import InputError, counted
from ..evaluation.score import scores, sentence_scores
from ..evaluation.score_settings import score_settings
from ..text.languages import own_languages
from ..text.normalization import clean
from .limits import LONGEST_TEXT, check_text, untranslated, user_errors
from .models import NO_LANGUAGES, Languages, LoadedModel
from .translate import make_translator
from .views import paragraphs, table

METRICS = ("bleu", "chrf")


def _split(text: str) -> list[str]:
    """The lines of a pasted text, without empty ones at its beginning and end."""
    return clean(text).strip("\n").split("\n")


def scored(loaded: LoadedModel, source: str, references: str, languages: Languages = NO_LANGUAGES) -> str:
    """Translate the lines of a text and score them, as HTML: the scores with their signatures, and each line."""
    sources = _split(check_text(source, LONGEST_TEXT))
    wanted = _split(check_text(references, LONGEST_TEXT, "reference text"))
    if len(sources) != len(wanted):
        raise InputError(
            f"The text has {counted(len(sources), 'line')}, but the references have {len(wanted):,}. Give one per "
            "line."
        )
    with loaded.lock, user_errors():
        results = make_translator(loaded, languages).translate(sources)
    if errors := [untranslated(result) for result in results if isinstance(result, Exception)]:
        raise InputError(f"{counted(len(errors), 'line')} cannot be scored: {errors[0]}")
    translations = [result[0]["translation_text"] for result in results]
    language = languages.target or own_languages(loaded.model.config, loaded.tokenizer)[1]
    settings = score_settings(loaded.tokenizer, language).arguments()
    with user_errors():
        of_text = scores(translations, wanted, METRICS, **settings)
        [of_lines] = sentence_scores(translations, wanted, ["chrf"], **settings)
    rows = [
        [number, f"{score:.1f}", *texts]
        for number, (score, *texts) in enumerate(zip(of_lines.values, sources, translations, wanted), start=1)
    ]
    headers = ["line", of_lines.name, "text", "translation", "reference"]
    return paragraphs(*map(str, of_text)) + table("Lines and their scores", headers, rows, numbers=2)
