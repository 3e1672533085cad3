"""Sentences with an adverbial clause: reasons, obstacles, conditions and consequences.

A third-person pronoun in the second clause stands for the subject or the object of the first, and is only
used where gender, number or the verb decides between the two.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import english, german
from .choices import chance, pick
from .clauses import ADVERBIALS, event, joined, main_clause
from .frames import ACTIVITIES, frames_of, kinds
from .lexicon import ADJECTIVES, ADJECTIVES_OF_KIND, NOUNS, read_table
from .nominals import NOUNS_OF_KIND, protagonist
from .phrases import (
    BARE,
    DEFINITE,
    ES,
    NO_OBJECT,
    Clause,
    Nominal,
    NounPhrase,
    Phrase,
    possessive,
)
from .simple_sentences import (
    described_as,
)
from .verbs import MODALS, VERBS

PRESENT_MODALS = [(1, MODALS[modal]) for modal in ("können", "wollen", "möchten")]
CAN, MUST, WANT = ([(1, MODALS[modal])] for modal in ("können", "müssen", "wollen"))

# Kinds of things that people need, and what people do with things, with the qualities that are a reason for it.
NEEDED_KINDS = kinds("tool text clothing container vehicle furniture table fridge bread drink")
PROPERTIES = {
    verb: adjectives.split()
    for verb, adjectives in read_table("""
        kaufen      schön billig gut neu frisch interessant groß schnell
        verkaufen   alt klein schlecht groß schwer
        weg|werfen  alt schlecht kalt
        lesen       gut interessant schön kurz neu
        tragen      warm schön neu
        suchen      teuer neu schön
    """)
}


def excuse(rng: Random) -> Phrase:
    """A sentence like "Anna kann heute nicht tanzen, weil sie krank ist"."""
    who = protagonist(rng)
    if chance(rng, 0.2):
        main = lately(event(rng, who, ("modal",), 1, ACTIVITIES["outing"], CAN))
        return because(rng, main, bad_weather(rng, main.tense))
    main = lately(event(rng, who, ("modal",), 1, ACTIVITIES["leisure"], CAN))
    return because(rng, main, hindrance(rng, who.pronoun, main.tense, main))


def need(rng: Random) -> Phrase:
    """A sentence like "Peter sucht den Schlüssel, weil er ihn braucht"."""
    who = protagonist(rng)
    while True:
        main = event(rng, who, ("present", "past"), 0, ACTIVITIES["search"])
        if main.direct.noun.kind in NEEDED_KINDS:
            break
    main, wanted = replace(main, adverbial=None), replace(main.direct, genitive=None)
    reason = Clause(who.pronoun, VERBS["brauchen"], main.tense, direct=wanted.pronoun)
    return because(rng, replace(main, direct=wanted), reason)


def property_reason(rng: Random) -> Phrase:
    """A sentence like "Maria hat den Mantel gekauft, weil er schön ist": "er" cannot be Maria."""
    while True:
        who, verb = protagonist(rng), pick(rng, list(PROPERTIES))
        main = event(rng, who, ("present", "past"), 0, frames_of(verb))
        thing = replace(main.direct, genitive=None, adjective=None, degree="positive")
        adjectives = [a for a in ADJECTIVES_OF_KIND[thing.noun.kind] if a.german in PROPERTIES[verb]]
        if adjectives and thing.pronoun.german is not who.pronoun.german:
            break
    reason = described_as(thing.pronoun, pick(rng, adjectives), main.tense)
    return because(rng, replace(main, direct=thing, adverbial=None), reason)


def errand(rng: Random) -> Phrase:
    """A sentence like "Wir fahren nach Berlin, weil wir unsere Schwester besuchen wollen"."""
    who = protagonist(rng)
    main = event(rng, who, ("present", "past"), 0, ACTIVITIES["trip"])
    wish = event(rng, who.pronoun, ("modal",), 0, ACTIVITIES["errand"], WANT)
    return because(rng, main, replace(wish, tense=main.tense, time=None, adverbial=None))


def feeling(rng: Random) -> Phrase:
    """A sentence like "Paul ist müde, weil er gearbeitet hat", "Anna ist glücklich, weil du ihr hilfst"."""
    who = protagonist(rng)
    kind = rng.random()
    if kind < 0.4:
        main = described_as(who, ADJECTIVES["müde"], "present")
        return because(rng, main, lately(event(rng, who.pronoun, ("past",), 0, ACTIVITIES["effort"])))
    main = described_as(who, ADJECTIVES["glücklich"], "present")
    if kind < 0.7:
        return because(rng, main, lately(event(rng, who.pronoun, ("past",), 0, ACTIVITIES["success"])))
    visitor = NounPhrase(pick(rng, NOUNS_OF_KIND["kin"]), possessive(who.pronoun))
    verb = VERBS[pick(rng, ("besuchen", "an|rufen", "ein|laden", "ab|holen", "helfen"))]
    case = "indirect" if verb is VERBS["helfen"] else "direct"
    tense = pick(rng, ("present", "past", "future"))
    return because(rng, main, replace(Clause(visitor, verb, tense), **{case: who.pronoun}))


def lately(clause: Clause) -> Clause:
    """The clause, without its adverbial of time unless that is yesterday or today."""
    recent = clause.time and clause.time.german.startswith(("gestern", "heute"))
    return clause if recent else replace(clause, time=None)


def because(rng: Random, main: Clause, reason: Clause) -> Phrase:
    """A main clause and its reason, with "weil" (verb at the end) or "denn" (verb second)."""
    if main.time and main.time.german.startswith(("wegen", "trotz")):
        main = replace(main, time=None)
    if chance(rng, 0.7):
        return joined(rng, main, Phrase("weil", "because"), reason, first=False)
    statement = main_clause(rng, main, ADVERBIALS)
    return Phrase(
        f"{statement.german}, denn {german.verb_second(reason)}",
        f"{statement.english} {english.statement(reason, 'because')}",
    )


def concession(rng: Random) -> Phrase:
    """A sentence like "Obwohl Peter krank ist, arbeitet er im Garten"."""
    who, first, tense = protagonist(rng), chance(rng, 0.4), pick(rng, ("present", "past"))
    if chance(rng, 0.25):
        main, obstacle = event(rng, who, (tense,), 0, ACTIVITIES["outing"]), bad_weather(rng, tense)
    else:
        main = event(rng, who.pronoun if first else who, (tense,), 0, ACTIVITIES["leisure"])
        obstacle = hindrance(rng, who if first else who.pronoun, tense, main)
    return joined(rng, main, Phrase("obwohl", "although"), obstacle, first)


def condition(rng: Random) -> Phrase:
    """A sentence like "Wenn das Wetter schön ist, wird Maria in den Park gehen"."""
    who, first = protagonist(rng), chance(rng, 0.6)
    named, other = (who, who.pronoun) if first else (who.pronoun, who)
    kind = rng.random()
    if kind < 0.2:
        main, if_clause = staying_at_home(rng, who), bad_weather(rng, "habitual")
    elif kind < 0.4:
        main = event(rng, other, ("modal",), 1, ACTIVITIES["leisure"], CAN)
        if_clause = hindrance(rng, named, "habitual", main)
    elif kind < 0.6:
        main = event(rng, who, ("habitual", "future", "modal"), 0, ACTIVITIES["outing"], PRESENT_MODALS)
        if_clause = weather(rng, "habitual", ("schön", "gut", "warm"))
    else:
        main = event(rng, other, ("habitual", "future", "modal"), 0, ACTIVITIES["leisure"], PRESENT_MODALS)
        if_clause = Clause(named, VERBS["haben"], "habitual", direct=NounPhrase(NOUNS["Zeit"], BARE))
    main = replace(main, time=None, tense="present" if main.modal else main.tense)
    return joined(rng, main, Phrase("wenn", "if"), if_clause, first)


def staying_at_home(rng: Random, who: Nominal) -> Clause:
    """A clause like "Anna bleibt zu Hause"."""
    home = Phrase("zu Hause", "at home")
    return Clause(who, VERBS["bleiben"], pick(rng, ("habitual", "future")), complement=home)


def consequence(rng: Random) -> Phrase:
    """A sentence like "Paul hat keine Zeit, deshalb kann er den Brief nicht schreiben"."""
    who, tense = protagonist(rng), pick(rng, ("present", "past"))
    effect = event(rng, who.pronoun, ("modal",), 1, ACTIVITIES["leisure"], CAN)
    effect = replace(effect, tense=tense, time=None, adverbial=None)
    statement = main_clause(rng, hindrance(rng, who, tense, effect), fields=())
    return Phrase(
        f"{statement.german}, deshalb {german.verb_first(effect)}",
        f"{statement.english}, so {english.statement(effect)}",
    )


def routine(rng: Random) -> Phrase:
    """A sentence like "Bevor Anna einschläft, liest sie ein Buch"."""
    who, first = protagonist(rng), chance(rng, 0.5)
    later = event(rng, who if first else who.pronoun, ("habitual",), 0, ACTIVITIES["evening"])
    earlier = event(rng, who.pronoun if first else who, ("habitual",), 0, ACTIVITIES["routine"])
    earlier, later = replace(earlier, time=None), replace(later, time=None, adverbial=None)
    return joined(rng, earlier, Phrase("bevor", "before"), later, first)


def hindrance(rng: Random, who: Nominal, tense: str, activity: Clause) -> Clause:
    """A reason not to do something: "er ist krank", "er hat keine Zeit", "er muss arbeiten"."""
    kind = rng.random()
    if kind < 0.45:
        return described_as(who, ADJECTIVES[pick(rng, ("müde", "krank"))], tense)
    if kind < 0.6:
        return Clause(who, VERBS["haben"], tense, direct=NounPhrase(NOUNS["Zeit"], NO_OBJECT))
    duties = [(weight, frames) for weight, frames in ACTIVITIES["duty"] if frames[0].verb is not activity.verb]
    duty = event(rng, who, ("modal",), 0, duties, MUST)
    return replace(duty, tense=tense, time=None, adverbial=None)


def bad_weather(rng: Random, tense: str) -> Clause:
    """A reason not to go out: "es regnet", "das Wetter ist schlecht"."""
    if chance(rng, 0.5):
        return Clause(ES, VERBS["regnen"], tense)
    return weather(rng, tense, ("schlecht", "kalt"))


def weather(rng: Random, tense: str, adjectives: tuple[str, ...]) -> Clause:
    """A clause like "das Wetter ist schlecht"."""
    return described_as(NounPhrase(NOUNS["Wetter"], DEFINITE), ADJECTIVES[pick(rng, adjectives)], tense)
