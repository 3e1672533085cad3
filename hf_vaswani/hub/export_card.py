"""The card of an exported model: where it comes from, how to use it in its engine, and what fewer bits cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from huggingface_hub import ModelCardData, SpaceCardData
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file

from ..backends import BACKENDS
from ..configuration.keys import Keys
from ..configuration.yaml_reader import read_yaml
from ..errors import InputError
from ..models.model_files import CONFIG_FILE, weights_size
from ..records import RESULTS_FILE
from ..records.run_report import read_report
from ..text.language_marks import GROUP_MARK
from ..text.languages import LanguagePair, own_languages
from .markdown import (
    direction_words,
    fenced,
    in_comment,
    one_line,
    plain,
    quoted,
    several_targets,
    table,
    usage_code,
)
from .metadata import hub_languages
from .repository import hub_id, is_hub_id

CARD_FILE = "README.md"
LICENSE_KEYS = ("license", "license_name", "license_link")
QUIET = {
    f"_raise_exceptions_for_{problem}": False for problem in ("gated_repo", "missing_entries", "connection_errors")
}
JAVASCRIPT = """\
import {{ pipeline }} from "@huggingface/transformers";

const translator = await pipeline("translation", {model});
const [{{ translation_text }}] = await translator({text}, {{ max_new_tokens: 256 }});"""
SERVER = "python -m http.server --bind 127.0.0.1"
PAGE = """\
`index.html` translates in the browser, on any static host, and offline after the first visit. What you type stays in
the browser. To see it on your own machine, run this in the folder, and open http://127.0.0.1:8000:"""
FULL_PRECISION = "float32"


@dataclass(frozen=True)
class Origin:
    """The model that was exported.

    Attributes:
        hub_id: its id on the Hub; `None` if it is not known to be there.
        languages: the Hub's codes of its languages, the source first.
        license: what its card says about its license, by the Hub's keys.
        size: size of its weights in bytes.
    """

    hub_id: str | None
    languages: list[str] | None
    license: dict[str, str]
    size: int
    pairs: Sequence[LanguagePair] = ()  # of a model for several, what it translates


def read_origin(path: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Origin:
    """What is known about a model.

    Args:
        path: folder or Hub id that the model was loaded from.
    """
    card = card_metadata(path)
    license = {key: card[key] for key in LICENSE_KEYS if isinstance(card.get(key), str)}
    pairs = [(source, target) for source, target in getattr(model.config, "language_pairs", None) or ()]
    codes = list(
        dict.fromkeys(code for pair in pairs or [own_languages(model.config, tokenizer)] for code in pair if code)
    )
    config = Path(path) / CONFIG_FILE if Path(path).is_dir() else cached_file(path, CONFIG_FILE, **QUIET)
    size = weights_size(Path(config).parent) if config else 0  # an adapter has none
    return Origin(published_name(path), hub_languages(codes), license, size, pairs)


def card_metadata(path: str) -> Keys:
    """The metadata of a model's card; empty if it has none that can be read."""
    try:
        file = cached_file(path, CARD_FILE, **QUIET)
        found = REGEX_YAML_BLOCK.match(Path(file).read_text(encoding="utf-8-sig")) if file else None
        content = read_yaml(found[2]) if found else {}
        return content if isinstance(content, dict) else {}
    except (OSError, ValueError, yaml.YAMLError):
        return {}


def published_name(path: str) -> str | None:
    """A model's id on the Hub: the one it was loaded by, or the one that `hf-vaswani card --name` gave its run."""
    if not Path(path).is_dir():
        return hub_id(path)
    try:
        name = read_report(Path(path)).name if (Path(path) / RESULTS_FILE).exists() else None
    except InputError:
        return None
    return name if name and "/" in name and is_hub_id(name) else None


@dataclass(frozen=True)
class Engine:
    """What a card says about an engine.

    Attributes:
        title: its name, as Markdown.
        library: the Hub's name for it.
        needs: what must be installed.
    """

    title: str
    library: str
    needs: str


ENGINES = {
    "marian": Engine("the MarianMT of transformers", "transformers", "pip install hf-vaswani"),
    "transformers.js": Engine(
        "[transformers.js](https://huggingface.co/docs/transformers.js)",
        "transformers.js",
        "npm install @huggingface/transformers",
    ),
    "web": Engine("a web page", "transformers.js", "a browser from 2024 or later"),
}


def _engine(to: str) -> Engine:
    if to in ENGINES:
        return ENGINES[to]
    record = BACKENDS[to]
    return Engine(f"[{record.title}]({record.url})", to, record.installation)


@dataclass(frozen=True)
class MetricLoss:
    """A score of the model and of its export, 0 to 100, with sacreBLEU's signature."""

    name: str
    model: float
    exported: float
    signature: str

    @property
    def difference(self) -> str:
        """The difference with its sign, negative if the export is worse."""
        # Computed from the rounded scores, as a reader would; adding 0.0 removes the sign of a negative zero.
        return f"{round(self.exported, 2) - round(self.model, 2) + 0.0:+.2f}"


@dataclass(frozen=True)
class ShortlistGain:
    """What a shortlist of target tokens changes: scores without it, by name, and how many times as fast it makes."""

    scores: dict[str, float]
    speed: float

    def __str__(self) -> str:
        scores = " and ".join(f"{name} {value:.2f}" for name, value in self.scores.items())
        gain = f"{self.speed:.2f} times as fast"
        return f"Without its shortlist of target tokens, it has {scores}; the shortlist makes it {gain}"


@dataclass(frozen=True)
class Comparison:
    """A test set, translated by a model and by its export.

    Attributes:
        test_set: its name.
        search: the search of both, in words.
        computed_by: the engine of the export, and the type it computes in.
        sentences, same: number of sentences, and of those with the same translation.
        example: a source and its translation by the export.
        shortlist: what its shortlist changes, if it has one.
    """

    test_set: str
    search: str
    computed_by: str
    sentences: int
    same: int
    losses: list[MetricLoss]
    example: tuple[str, str]
    shortlist: ShortlistGain | None = None

    def summary(self) -> str:
        """The comparison as lines of text."""
        lines = [
            f"{loss.name} {loss.exported:.2f}, the model's {loss.model:.2f} ({loss.difference}; {loss.signature})"
            for loss in self.losses
        ]
        lines.append(f"The same translation: {self.share}")
        return "\n".join([*lines, str(self.shortlist)] if self.shortlist else lines)

    @property
    def share(self) -> str:
        """How many sentences have the same translation."""
        return f"{self.same:,} of {self.sentences:,} ({self.same / self.sentences:.1%})"


def export_card(
    name: str,
    to: str,
    quantization: str | None,
    size: int,
    origin: Origin,
    comparison: Comparison | None = None,
) -> str:
    """A card: metadata in YAML and text in Markdown.

    Args:
        name: name of the exported model.
        to: the format, as options call it.
        quantization: type of the weights; `None` for float32.
        size: size of the weights in bytes.
        origin: the model that was exported.
        comparison: comparison with that model, if both have translated a test set.
    """
    quantization = quantization or FULL_PRECISION
    parts = [
        f"---\n{_metadata(name, to, quantization, origin, comparison).to_yaml()}\n---",
        f"# {plain(name)}",
        _summary(to, quantization, origin),
        "## Use",
        *_usage(name, to, comparison.example if comparison else None, several_targets(origin.pairs)),
        f"## Compared with {_model(origin)}",
        _compared(quantization, size, origin, comparison),
    ]
    return ("\n\n".join(parts) + "\n").encode("utf-8", "replace").decode()


def _metadata(
    name: str, to: str, quantization: str, origin: Origin, comparison: Comparison | None
) -> ModelCardData | SpaceCardData:
    """Metadata of a model, or of the Space that a web page becomes."""
    if to == "web":
        return SpaceCardData(
            title=one_line(name).rpartition("/")[2],
            sdk="static",
            app_file="index.html",
            license=origin.license.get("license"),
            models=[origin.hub_id] if origin.hub_id else None,
            tags=["vaswani", "translation", "transformers.js"],
        )
    is_quantized = quantization != FULL_PRECISION
    return ModelCardData(
        language=origin.languages,
        library_name=_engine(to).library,
        pipeline_tag="translation",
        tags=["vaswani", *[quantization] * is_quantized],
        base_model=origin.hub_id,
        **{"base_model_relation": "quantized"} if origin.hub_id and is_quantized else {},
        **origin.license,
        metrics=["bleu", "chrf"] if comparison else None,
    )


def _model(origin: Origin) -> str:
    """The model that was exported, as Markdown."""
    return f"[{plain(origin.hub_id)}](https://huggingface.co/{origin.hub_id})" if origin.hub_id else "the model"


def _summary(to: str, quantization: str, origin: Origin) -> str:
    direction = f" {words}" if (words := direction_words(origin.languages or (), origin.pairs)) else ""
    model = _model(origin) if origin.hub_id else "a model of `hf_vaswani`"
    return (
        f"Translates single sentences{direction}: {model}, converted for {_engine(to).title} by `hf_vaswani`, with "
        f"weights in {quantization}."
    )


def _usage(name: str, to: str, example: tuple[str, str] | None, targets: Sequence[str] = ()) -> list[str]:
    """How to use the exported model, in paragraphs.

    Args:
        targets: the target languages of a model for several.
    """
    if to == "web":
        return [PAGE, fenced(SERVER, "bash"), f"It needs {_engine(to).needs}."]
    text, needs = example or ("…",), f"It needs `{_engine(to).needs}`."
    if to != "transformers.js":
        return [fenced(usage_code(name, *text, target=next(iter(targets), None)), "python"), needs]
    mark = f">>{targets[0]}<< " if targets and not GROUP_MARK.match(text[0]) else ""
    code = JAVASCRIPT.format(model=quoted(name), text=quoted(mark + text[0]))
    code += f"\n// {in_comment(text[1])}" if example else ""
    marks = ", ".join(f"`>>{target}<<`" for target in targets)
    each = [f"Each text begins with the mark of the language to translate it into: {marks}."] if targets else []
    return [fenced(code, "js"), *each, needs]


def _compared(quantization: str, size: int, origin: Origin, comparison: Comparison | None) -> str:
    sizes = ["size of the weights", f"{origin.size / 1e6:.1f} MB", f"{size / 1e6:.1f} MB", ""]
    header = ["", "model", quantization, "difference"]
    if comparison is None:
        words = (
            "It has the model's own weights. Compared on a sample, its translations had the same tokens as the "
            "model's, or equally probable ones."
        )
        if quantization != FULL_PRECISION:
            words = f"What {quantization} costs in quality was not measured: the export was given no test set."
        return f"{table(header[:3], [sizes[:3]])}\n\n{words}"
    rows = [[loss.name, f"{loss.model:.2f}", f"{loss.exported:.2f}", loss.difference] for loss in comparison.losses]
    signatures = "; ".join(f"{loss.name}: sacreBLEU's `{loss.signature}`" for loss in comparison.losses)
    return (
        f"{table(header, [*rows, ['the same translation', '', comparison.share, ''], sizes])}\n\nBoth translated "
        f"{plain(comparison.test_set)}, {comparison.search}; the export was computed by {comparison.computed_by}. "
        f"{signatures}." + (f" {comparison.shortlist} (`vmap.txt`)." if comparison.shortlist else "")
    )
