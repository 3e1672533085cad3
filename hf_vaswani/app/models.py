"""The models that can be chosen on the page: checked at the start, loaded when they are first used.

They are loaded one at a time, and the two used last are kept, as many as the page compares with each other.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from transformers import CONFIG_MAPPING, AutoModelForSeq2SeqLM, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from ..errors import InputError
from ..files import collect_errors
from ..models.load import adapter_base, check_folder, load
from ..models.model_files import check_settings, find_model_kind
from ..text.languages import NO_LANGUAGES, Languages, is_multilingual, language_codes, language_pairs
from ..translator.backends.selection import AUTO, BackendSelection
from ..translator.pipeline import TranslationPipeline

TITLE = "Translation"
QUICKSTART = Path("outputs/quickstart")
KEPT = 2


class LanguageChoices(NamedTuple):
    """Codes of the languages that a model offers for choice; empty for a model of a single pair."""

    sources: list[str]
    targets: list[str]
    source: str | None = None  # the initial choice


@dataclass
class LoadedModel:
    """A model, and the pipelines that translate with it.

    Attributes:
        engine: what computes translations, as the pipeline takes it.
        lock: held while the model computes or the languages of its tokenizer are set.
    """

    name: str
    model: PreTrainedModel
    tokenizer: Tokenizer
    lock: RLock = field(default_factory=RLock)
    engine: str = AUTO

    def __post_init__(self):
        self.selection = BackendSelection(self.engine)  # of all its pipelines, whose work adds up
        self.choices = language_choices(self.model, self.tokenizer)
        self._pipelines: dict[Languages, TranslationPipeline] = {}

    @property
    def has_attention(self) -> bool:
        """Whether attention can be read and words can be linked, which other engines than PyTorch do not allow."""
        return not hasattr(self.model.config, "weights_digest")

    def pipeline(self, languages: Languages = NO_LANGUAGES) -> TranslationPipeline:
        """The pipeline that translates between two languages; an `InputError` if one is missing or not the model's."""
        if not self.choices.sources:
            languages = NO_LANGUAGES
        elif None in languages:
            raise InputError(f"{self.name} is multilingual. Choose the source and the target language.")
        with self.lock:
            if languages not in self._pipelines:
                device = None if getattr(self.model, "hf_device_map", None) else self.model.device
                arguments = {"device": device, "engine": self.selection, **languages.arguments()}
                try:
                    self._pipelines[languages] = TranslationPipeline(self.model, tokenizer=self.tokenizer, **arguments)
                except ValueError as error:
                    raise InputError(" ".join(str(error).split())) from None
            return self._pipelines[languages]


class ModelCache:
    """The models of the page.

    Args:
        names: folders or Hub ids.
        trust_remote_code: run code that comes with models of types that are unknown to transformers and this package.
        engine: what computes translations: `"auto"`, `"torch"`, `"ctranslate2"` or `"onnx"`.

    Raises:
        ValueError: the engine is unknown or not installed.
    """

    def __init__(self, names: Sequence[str], trust_remote_code: bool = False, engine: str = AUTO):
        BackendSelection(engine)  # fails before any model is loaded
        self.engine = engine
        self.names = tuple(dict.fromkeys(names))
        self.trust_remote_code = trust_remote_code
        self._loaded: OrderedDict[str, LoadedModel] = OrderedDict()
        self._lock = RLock()

    def open(self, name: str | None) -> LoadedModel:
        """Return a model of the page, and load it first if necessary."""
        if name not in self.names:
            raise InputError(f"There is no model {name!r} here. Choose one of: {', '.join(self.names)}.")
        with self._lock:
            if name not in self._loaded:
                while len(self._loaded) >= KEPT:
                    self._loaded.popitem(last=False)
                code = self.trust_remote_code and has_unknown_type(name)
                self._loaded[name] = LoadedModel(name, *load(name, trust_remote_code=code), engine=self.engine)
            self._loaded.move_to_end(name)
            return self._loaded[name]


def make_title(loaded: LoadedModel) -> str:
    """The page's title for a model: "Translation: de → en" if it translates only one known pair."""
    pairs = language_pairs(loaded.model, loaded.tokenizer)
    is_one = len(pairs) == 1 and all(pairs[0])
    return f"{TITLE}: {' → '.join(map(str, pairs[0]))}" if is_one else TITLE


def language_choices(model: PreTrainedModel, tokenizer: Tokenizer) -> LanguageChoices:
    """The languages that a model translates from and to, for choice."""
    if is_multilingual(tokenizer):
        codes = sorted(language_codes(tokenizer))
        first = getattr(tokenizer, "src_lang", None)
        return LanguageChoices(codes, codes, first if first in codes else None)
    pairs = language_pairs(model, tokenizer)
    if len(pairs) < 2:
        return LanguageChoices([], [])
    sides = [sorted({code for code in side if code}) for side in zip(*pairs)]
    return LanguageChoices(*sides)


def target_choices(loaded: LoadedModel, source: str | None) -> list[str]:
    """The languages that a model translates a language to, for choice."""
    pairs = language_pairs(loaded.model, loaded.tokenizer)
    own = {str(target) for other, target in pairs if other == source}
    return [code for code in loaded.choices.targets if not own or code in own]


def chosen_models(names: Sequence[str], trust_remote_code: bool = False) -> list[str]:
    """Check the given models, or the quickstart's, without loading them, and return their names."""
    if not names:
        if not QUICKSTART.is_dir():
            raise InputError(
                f"No model is given, and {QUICKSTART} does not exist. Specify a folder or a Hub id, or train a model "
                "first: bash scripts/quickstart.sh"
            )
        names = [str(QUICKSTART)]
    errors: list[str] = []
    for name in dict.fromkeys(names):
        collect_errors(errors, lambda name=name: check_model(name, trust_remote_code))
    if errors:
        raise InputError.of(errors)
    return list(names)


def check_model(name: str, trust_remote_code: bool = False) -> None:
    """Raise an `InputError` if this is not a translation model; its weights are not loaded."""
    if adapter_base(name) is not None:
        return
    is_folder = Path(name).is_dir()
    if is_folder:
        check_folder(Path(name))
    kind = find_model_kind(name)
    if kind not in CONFIG_MAPPING:
        if not trust_remote_code:
            raise InputError(
                f"{name}: model_type {kind!r} is unknown to transformers. If you trust its code, add "
                "--trust_remote_code."
            )
    elif is_folder:
        check_settings(Path(name))
    elif CONFIG_MAPPING[kind] not in AutoModelForSeq2SeqLM._model_mapping:
        raise InputError(f"{name}: a model of type {kind!r} is not an encoder-decoder. Choose one that translates.")


def has_unknown_type(name: str) -> bool:
    """Whether transformers and this package have no code for the type of a model, or of an adapter's base."""
    return find_model_kind(adapter_base(name) or name) not in CONFIG_MAPPING
