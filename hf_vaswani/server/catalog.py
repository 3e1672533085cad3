"""Which of the served models translates which pair of languages, and how its tokenizer spells them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from ..errors import InputError
from ..files import collect_errors
from ..text.languages import NO_LANGUAGES, Languages, is_same_language, language_pairs

LONGEST_CODE, MOST_KNOWN, SHOWN_PAIRS = 40, 4096, 8
# LibreTranslate's own codes.
ALIASES = {"pb": "pt-BR", "zt": "zh-Hant"}
# A model may be given with its languages: de-en=outputs/my_model.
WITH_LANGUAGES = re.compile(r"(?P<source>[A-Za-z]{2,3}(?:_\w+)?)-(?P<target>[A-Za-z]{2,3}(?:_\w+)?)=(?P<model>.+)")


class Pair(NamedTuple):
    """Codes of a source and a target language as clients know them: `de`, `pt-BR`, `zh-Hans`."""

    source: str
    target: str


class GivenModel(NamedTuple):
    """A model as the command is given it.

    Attributes:
        path: folder or Hub id.
        languages: what it translates, if that is given, too.
    """

    path: str
    languages: tuple[str, str] | None = None


@dataclass(frozen=True)
class Route:
    """What translates a pair.

    Attributes:
        model: name of the served model.
        languages: those that its pipeline is told; none for a model of one pair.
        then: what translates on from a third language, if this route is into one.
        via: the public code of the third language.
    """

    model: str
    languages: Languages = NO_LANGUAGES
    then: "Route | None" = None
    via: str | None = None


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
        """The languages alike to the codes that were requested."""
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


def name_models(models: Iterable[str]) -> dict[str, GivenModel]:
    """Models by the names that they are served under.

    Args:
        models: folders or Hub ids, each with its languages if it does not know them itself: `de-en=FOLDER`.
    """
    names: dict[str, GivenModel] = {}
    for given in models:
        match = WITH_LANGUAGES.fullmatch(given)
        path = match["model"] if match else given
        names[_free_name(Path(path).name, names)] = GivenModel(path, match and (match["source"], match["target"]))
    return names


def make_catalog(
    models: Mapping[str, GivenModel], pairs: Iterable[Mapping[Pair, Languages]], via: str | None = None
) -> Catalog:
    """The catalog of models with what [`model_pairs`] says of each.

    Args:
        via: code of the language over which pairs are translated that no model has, if they are to be.

    Raises:
        InputError: two translate the same pair, or no pair is gained over the third language.
    """
    routes: dict[Pair, Route] = {}
    errors: list[str] = []
    for (name, model), own in zip(models.items(), pairs):
        for pair, languages in own.items():
            if pair in routes:
                other = models[routes[pair].model]
                errors.append(
                    f"{other.path} and {model.path} both translate {pair.source} to {pair.target}; serve one of them"
                )
            else:
                routes[pair] = Route(name, languages)
    if errors:
        raise InputError.of(errors)
    if via is not None:
        routes |= _routes_over(via, routes)
    return Catalog({name: model.path for name, model in models.items()}, routes)


def _routes_over(via: str, routes: Mapping[Pair, Route]) -> dict[Pair, Route]:
    """The pairs that two of the routes translate over a third language, and none by itself.

    Raises:
        InputError: there is none; the message says why.
    """
    # The language with its own code comes first, as in `Catalog.find`.
    known = list(dict.fromkeys(code for pair in sorted(routes) for code in pair))
    pivots = _alike(public_code(via), known)
    direct: dict[str, list[str]] = {}
    for source, target in routes:
        direct.setdefault(source, []).append(target)
    into = {pair.source: (pair, routes[pair]) for code in reversed(pivots) for pair in routes if pair.target == code}
    out_of = {pair.target: (pair, routes[pair]) for code in reversed(pivots) for pair in routes if pair.source == code}
    found = {
        Pair(source, target): replace(first, then=second, via=between)
        for source, ((_, between), first) in into.items()
        for target, (_, second) in out_of.items()
        if Pair(source, target) not in routes
        and not any(is_same_language(target, code) for code in [source, *direct[source]])
    }
    if not found:
        served = ", ".join(f"{source}-{target}" for source, target in sorted(routes)[:SHOWN_PAIRS])
        missing = " or ".join(name for name, known in (("into", into), ("from", out_of)) if not known)
        why = f"no model translates {missing} it" if missing else "models translate all pairs directly"
        raise InputError(f"--via {via} adds no pair: {why}. The models translate {served}.")
    return found


def read_catalog(given: Iterable[str], via: str | None = None) -> Catalog:
    """The catalog of models, which this process looks at itself; `via` as in [`make_catalog`].

    Raises:
        InputError: a model cannot be served, does not know its languages, or two translate the same pair.
    """
    models, errors = name_models(given), []
    pairs = [collect_errors(errors, lambda model=model: model_pairs(model)) for model in models.values()]
    if errors:
        raise InputError.of(errors)
    return make_catalog(models, [own for own in pairs if own is not None], via)


def model_pairs(model: GivenModel) -> dict[Pair, Languages]:
    """The pairs of a model, with the languages that its pipeline is told for each; its weights are not loaded.

    Raises:
        InputError: the model cannot be served, or does not know its languages.
    """
    # The process that clients reach does without these.
    from transformers import AutoConfig

    from ..app.models import check_model, language_choices
    from ..data.tokenizers.tokenizer import load_tokenizer
    from ..models.load import adapter_base

    path, requested = model
    check_model(path)
    config, tokenizer = AutoConfig.from_pretrained(adapter_base(path) or path), load_tokenizer(path)
    known: Any = SimpleNamespace(config=config)  # all that the functions below read
    choices = language_choices(known, tokenizer)
    if requested:
        return {Pair(*map(public_code, requested)): Languages(*requested) if choices.sources else NO_LANGUAGES}
    if not choices.sources:
        pairs = [pair for pair in language_pairs(known, tokenizer) if all(pair)]
        if not pairs:
            raise InputError(f"{path} does not say what it translates. Name its languages: de-en={path}")
        return {Pair(*(public_code(str(code)) for code in pair)): NO_LANGUAGES for pair in pairs}
    codes = _public_codes([*choices.sources, *choices.targets])
    if own := language_pairs(known, tokenizer):  # T5 has prefixes for some pairs only
        combinations = [(str(source), str(target)) for source, target in own if source and target]
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


def _free_name(name: str, names: Mapping[str, Any]) -> str:
    number = 2
    free = name
    while free in names:
        free, number = f"{name}-{number}", number + 1
    return free
