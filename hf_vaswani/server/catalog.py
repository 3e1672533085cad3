"""Which of the served models translates which pair of languages, and how its tokenizer spells them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from transformers import AutoConfig

from ..app.models import NO_LANGUAGES, Languages, check_model, language_choices
from ..data.tokenizers.tokenizer import load_tokenizer
from ..errors import InputError
from ..files import collect_errors
from ..text.languages import is_same_language, language_pairs
from ..translator.load import adapter_base

LONGEST_CODE, MOST_KNOWN = 40, 4096
# LibreTranslate's own codes.
ALIASES = {"pb": "pt-BR", "zt": "zh-Hant"}
# A model may be given with its languages: de-en=outputs/my_model.
WITH_LANGUAGES = re.compile(r"(?P<source>[A-Za-z]{2,3}(?:_\w+)?)-(?P<target>[A-Za-z]{2,3}(?:_\w+)?)=(?P<model>.+)")


class Pair(NamedTuple):
    """Codes of a source and a target language as clients know them: `de`, `pt-BR`, `zh-Hans`."""

    source: str
    target: str


@dataclass(frozen=True)
class Route:
    """What translates a pair.

    Attributes:
        model: name of the served model.
        languages: those that its pipeline is told; none for a model of one pair.
    """

    model: str
    languages: Languages = NO_LANGUAGES


@dataclass(frozen=True)
class Catalog:
    """All pairs that are served.

    Attributes:
        models: folder or Hub id of each model, by the name that it is served under.
        routes: what translates each pair.
    """

    models: dict[str, str]
    routes: dict[Pair, Route]

    @cached_property
    def _targets(self) -> dict[str, list[str]]:
        """The targets of each source: a model for 200 languages has 40,000 pairs, too many to go through each time."""
        targets: dict[str, list[str]] = {}
        for source, target in sorted(self.routes):
            targets.setdefault(source, []).append(target)
        return targets

    @cached_property
    def _all_targets(self) -> list[str]:
        return sorted({target for targets in self._targets.values() for target in targets})

    @cached_property
    def codes(self) -> list[str]:
        """All languages that are served, as sources or targets."""
        return list(dict.fromkeys([*self.sources(), *self.targets()]))

    @cached_property
    def _known(self) -> dict[str, list[str]]:
        """The languages alike to the codes that were asked for."""
        return {}

    def sources(self) -> list[str]:
        return list(self._targets)

    def targets(self, source: str | None = None) -> list[str]:
        """The languages that are translated into, from one language or from any."""
        return self._all_targets if source is None else self._targets.get(source, [])

    def find(self, source: str, target: str) -> tuple[Pair, Route] | None:
        """The pair that a request asks for: that with its codes, or else one with the same languages.

        `en` finds `en-GB`, and `EN-US` finds `en`, as DeepL's clients ask for it.
        """
        pairs = (Pair(*codes) for codes in product(self.alike(source), self.alike(target)))
        pair = next((pair for pair in pairs if pair in self.routes), None)
        return None if pair is None else (pair, self.routes[pair])

    def alike(self, code: str) -> list[str]:
        """The served languages that a client's code may stand for, the code itself first."""
        if len(code) > LONGEST_CODE:
            return []
        if code not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[code] = _alike(public_code(code), self.codes)
        return self._known[code]


def _alike(code: str, codes: Sequence[str]) -> list[str]:
    """Those of some codes that may stand for a language, the code itself first."""
    return sorted((other for other in codes if is_same_language(code, other)), key=lambda other: other != code)


@lru_cache(MOST_KNOWN)
def public_code(code: str) -> str:
    """The usual code of a language that a tokenizer or a client spells in its own way: `deu_Latn` is `de`."""
    from langcodes import Language, standardize_tag

    code = code.strip("_<> ").replace("_XX", "")
    try:
        tag = standardize_tag(ALIASES.get(code.lower(), code), macro=True)
    except ValueError:
        return code.lower()
    language = Language.get(tag)
    if language.language == "no":  # as it is nearly always written
        return "nb"
    if language.language == "zh" and language.territory and not language.script:
        return f"zh-{language.maximize().script}"
    return tag


def language_name(code: str) -> str:
    """The English name of a language."""
    from langcodes import Language

    try:
        return Language.get(code).display_name("en")
    except ValueError:
        return code


def read_catalog(models: Sequence[str]) -> Catalog:
    """Find out which pairs models translate; their weights are not loaded.

    Args:
        models: folders or Hub ids, each with its languages if it does not know them itself: `de-en=FOLDER`.

    Raises:
        InputError: a model cannot be served, does not know its languages, or two translate the same pair.
    """
    names: dict[str, str] = {}
    routes: dict[Pair, Route] = {}
    errors: list[str] = []
    for given in models:
        match = WITH_LANGUAGES.fullmatch(given)
        path = match["model"] if match else given
        asked = (match["source"], match["target"]) if match else None
        name = _free_name(Path(path).name, names)
        names[name] = path
        pairs = collect_errors(errors, lambda path=path, asked=asked: _pairs(path, asked))
        for pair, languages in (pairs or {}).items():
            if pair in routes:
                other = names[routes[pair].model]
                errors.append(f"{other} and {path} both translate {pair.source} to {pair.target}; serve one of them")
            else:
                routes[pair] = Route(name, languages)
    if errors:
        raise InputError.of(errors)
    return Catalog(names, routes)


def _pairs(path: str, asked: tuple[str, str] | None) -> dict[Pair, Languages]:
    """The pairs of a model, with the languages that its pipeline is told for each."""
    check_model(path)
    base = adapter_base(path) or path
    config, tokenizer = AutoConfig.from_pretrained(base), load_tokenizer(path)
    model: Any = SimpleNamespace(config=config)  # all that the functions below read
    choices = language_choices(model, tokenizer)
    if asked:
        return {Pair(*map(public_code, asked)): Languages(*asked) if choices.sources else NO_LANGUAGES}
    if not choices.sources:
        pairs = [pair for pair in language_pairs(model, tokenizer) if all(pair)]
        if not pairs:
            raise InputError(f"{path} does not say what it translates. Name its languages: de-en={path}")
        return {Pair(*(public_code(str(code)) for code in pair)): NO_LANGUAGES for pair in pairs}
    codes = _public_codes([*choices.sources, *choices.targets])
    if known := language_pairs(model, tokenizer):  # T5 has prefixes for some pairs only
        combinations = [(str(source), str(target)) for source, target in known if source and target]
    else:
        combinations = [(source, target) for source in choices.sources for target in choices.targets]
    return {
        Pair(codes[source], codes[target]): Languages(source, target)
        for source, target in combinations
        if codes[source] != codes[target]
    }


def _public_codes(codes: Sequence[str]) -> dict[str, str]:
    """The public code of each of a tokenizer's codes: without a region that no other code has: `de_DE` is `de`."""
    own = {code: public_code(code) for code in codes}
    languages = [code.split("-")[0] for code in {*own.values()}]
    return {code: tag.split("-")[0] if languages.count(tag.split("-")[0]) == 1 else tag for code, tag in own.items()}


def _free_name(name: str, names: dict[str, str]) -> str:
    number = 2
    free = name
    while free in names:
        free, number = f"{name}-{number}", number + 1
    return free
