"""Sentences with a complement clause: reports with "dass", indirect questions and infinitives with "zu"."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import english, german
from .choices import Weighted, chance, pick, pick_weighted
from .clauses import ADVERBIALS, event, joined, main_clause, subordinate_clause
from .frames import ACTIVITIES, Frame
from .lexicon import NOUNS
from .nominals import is_quantified, protagonist, subject
from .phrases import (
    BARE,
    DU,
    ICH,
    IHR,
    NO_OBJECT,
    NO_SUBJECT,
    WER,
    WIR,
    Clause,
    Nominal,
    NounPhrase,
    Phrase,
    Pronoun,
)
from .simple_sentences import (
    belonging_clause,
    described,
    describing_clause,
    liking_clause,
    particular_person,
)
from .verbs import MODALS, VERBS


def report(rng: Random) -> Phrase:
    """A sentence like "Ich glaube, dass der Arzt uns helfen wird"."""
    speaker = pick(rng, (ICH, WIR)) if chance(rng, 0.3) else protagonist(rng)
    matrix = Clause(speaker, VERBS[pick(rng, ("sagen", "glauben", "hoffen", "wissen"))])
    if matrix.verb is VERBS["glauben"]:
        matrix = replace(matrix, negated=chance(rng, 0.25))
    tenses = ("future",) if matrix.verb is VERBS["hoffen"] else ("past", "future", "modal")
    reported = event(rng, speaker.pronoun, tenses) if chance(rng, 0.25) else content(rng, speaker)
    return joined(rng, matrix, Phrase("dass", "that"), reported, first=False)


def indirect_question(rng: Random) -> Phrase:
    """A sentence like "Ich weiß nicht, ob Peter die Tür zugemacht hat", "Weißt du, warum sie lacht?"."""
    who, know = protagonist(rng), VERBS["wissen"]
    words = pick_weighted(
        rng, [(5, ("ob", "whether")), (2, ("warum", "why")), (1.5, ("wann", "when")), (1.5, ("wer", "who"))]
    )
    if words[0] == "wer":
        asked, words = event(rng, WER, negation=0), ("", "")
    elif words[0] == "wann":
        asked = replace(event(rng, tenses=("past", "future"), negation=0, frames=ACTIVITIES["task"]), time=None)
    else:
        asked = content(rng, who, negation=0.3 if words[0] == "warum" else 0)
    clause = subordinate_clause(asked, *words)
    kind = rng.random()
    if kind < 0.45:
        matrix = Clause(who, know, negated=True)
    elif kind < 0.75:
        matrix = Clause(who, know, modal=MODALS["möchten"])
    else:
        you = Clause(pick(rng, (DU, DU, IHR)), know)
        return Phrase(f"{german.verb_first(you)}, {clause.german}?", f"{english.question(you)} {clause.english}?")
    return Phrase(f"{german.verb_second(matrix)}, {clause.german}", f"{english.statement(matrix)} {clause.english}")


def content(rng: Random, speaker: Nominal, negation: float = 0.12) -> Clause:
    """What someone says or asks about others; if `negation` is 0, subjects with "kein" are left out, too."""
    while True:
        clause = any_clause(rng, negation)
        if isinstance(clause.subject, Pronoun):
            return clause
        about_others = isinstance(speaker, Pronoun) or clause.subject.noun is not speaker.noun
        if about_others and (negation or clause.subject.determiner is not NO_SUBJECT):
            return clause


def any_clause(rng: Random, negation: float) -> Clause:
    """An event, a description, or who likes or owns something."""
    kind = rng.random()
    if kind < 0.15:
        return describing_clause(rng, described(rng), "past" if chance(rng, 0.3) else "present")
    if kind < 0.25:
        clause = liking_clause(rng, particular_person(rng))
    elif kind < 0.3:
        clause = belonging_clause(rng)
    else:
        return event(rng, negation=negation)
    return replace(clause, negated=clause.negated and negation > 0)


def purpose(rng: Random) -> Phrase:
    """A sentence like "Maria fährt in die Stadt, um einzukaufen"."""
    main = event(rng, tenses=("present", "past", "future", "modal"), negation=0, frames=ACTIVITIES["trip"])
    return with_infinitive(rng, main, ACTIVITIES["errand"], "um")


def attempt(rng: Random) -> Phrase:
    """A sentence like "Peter versucht, den Arzt anzurufen", "Wir haben keine Zeit, einzukaufen"."""
    who, tense = subject(rng), pick(rng, ("present", "past"))
    verb = VERBS[pick(rng, ("versuchen", "vergessen", "hoffen", "haben"))]
    if verb is VERBS["haben"]:
        determiner = BARE if is_quantified(who) or chance(rng, 0.4) else NO_OBJECT
        return with_infinitive(
            rng, Clause(who, verb, tense, direct=NounPhrase(NOUNS["Zeit"], determiner)), ACTIVITIES["task"]
        )
    if verb is VERBS["vergessen"]:
        tense = "past"
    actions = ACTIVITIES["errand"] + ACTIVITIES["success"] if verb is VERBS["hoffen"] else ACTIVITIES["task"]
    return with_infinitive(rng, Clause(who, verb, tense), actions)


def with_infinitive(rng: Random, main: Clause, actions: Weighted[list[Frame]], opener: str = "") -> Phrase:
    """A clause followed by an infinitive clause with the same subject."""
    action = event(rng, main.subject, ("past",), 0, actions)  # the tense goes unused
    action = replace(action, time=None, adverbial=None)
    statement = main_clause(rng, main, ADVERBIALS)
    return Phrase(
        f"{statement.german}, {german.infinitive(action, opener)}",
        f"{statement.english} {english.infinitive(action)}",
    )
