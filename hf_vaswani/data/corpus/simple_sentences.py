"""Statements of one clause: events, descriptions, comparisons, possession, numbers and clock times."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import english, german
from .choices import chance, pick, pick_number, pick_weighted
from .clauses import adverb_of_time, clock_phrase, event, has_negative_subject, main_clause, prepositional_phrase
from .frames import INTRANSITIVE, PREPOSITIONAL, Frame
from .lexicon import ADJECTIVES_OF_KIND, NOUNS, PEOPLE_KINDS, PLACE_PREPOSITIONS, UNITS, Adjective
from .nominals import (
    NOUNS_OF_KIND,
    PLURAL,
    SUBJECT_PRONOUNS,
    is_person,
    person,
    pick_countable,
    place,
    subject,
    thing,
)
from .phrases import (
    BARE,
    DEFINITE,
    INDEFINITE,
    MANY,
    NAME,
    Clause,
    Nominal,
    NounPhrase,
    Phrase,
    count,
)
from .verbs import VERBS

BE = VERBS["sein"]
THAT = Phrase("das", "that")

# Kinds of thing that have a colour, an age or a weight to speak of.
DESCRIBED_KINDS = (
    "animal",
    "food",
    "meal",
    "drink",
    "text",
    "writing",
    "event",
    "clothing",
    "picture",
    "container",
    "cupboard",
    "furniture",
    "vehicle",
    "transport",
    "room",
    "house",
    "building",
    "town",
    "stop",
    "city",
)

INTENSIFIERS = [Phrase("sehr", "very"), Phrase("zu", "too"), Phrase("ziemlich", "quite")]


def statement(rng: Random) -> Phrase:
    """ "Gestern hat Anna im Garten ein Buch gelesen." """
    return main_clause(rng, event(rng))


def adjectives_for(nominal: Nominal) -> list[Adjective]:
    """The adjectives that say something about a subject."""
    if is_person(nominal):
        is_child = isinstance(nominal, NounPhrase) and nominal.noun.kind == "child"
        return ADJECTIVES_OF_KIND["child" if is_child else "person"]
    return ADJECTIVES_OF_KIND[nominal.noun.kind]


def described(rng: Random) -> Nominal:
    """A person or a thing to say something about, without an adjective of its own."""
    if chance(rng, 0.4):
        nominal = pick_weighted(rng, SUBJECT_PRONOUNS) if chance(rng, 0.3) else person(rng)
    else:
        nominal = thing(rng, (pick(rng, DESCRIBED_KINDS),), reference="definite")
    return replace(nominal, adjective=None) if isinstance(nominal, NounPhrase) else nominal


def describing_clause(rng: Random, who: Nominal, tense: str = "present") -> Clause:
    """A clause with "sein" and an adjective: "Der Tisch ist sehr alt"."""
    adjective = pick(rng, adjectives_for(who))
    predicate = Phrase(adjective.german, adjective.english)
    if adjective.comparative and chance(rng, 0.35):
        intensifier = pick(rng, INTENSIFIERS)
        predicate = Phrase(
            f"{intensifier.german} {predicate.german}", f"{intensifier.english} {predicate.english}"
        )
    return Clause(who, BE, tense, complement=predicate)


def description(rng: Random) -> Phrase:
    """ "Die Suppe war nicht warm." """
    clause = describing_clause(rng, described(rng), "past" if chance(rng, 0.3) else "present")
    return main_clause(rng, replace(clause, negated=chance(rng, 0.2)))


def comparison(rng: Random) -> Phrase:
    """ "Mein Koffer ist schwerer als die Tasche." """
    first = described(rng)
    while True:
        second = replace(person(rng) if is_person(first) else other_thing(rng, first), adjective=None)
        gradable = [a for a in adjectives_for(first) if a.comparative and a in adjectives_for(second)]
        if gradable and german.nominal(first, "nominative") != german.nominal(second, "nominative"):
            break
    adjective, negated = pick(rng, gradable), False
    standard = Phrase(german.nominal(second, "nominative"), english.nominal(second, "object"))
    if chance(rng, 0.6):
        predicate = Phrase(
            f"{adjective.comparative} als {standard.german}", f"{adjective.english_comparative} than {standard.english}"
        )
    else:
        negated = chance(rng, 0.4)
        predicate = Phrase(
            f"so {adjective.german} wie {standard.german}", f"as {adjective.english} as {standard.english}"
        )
    tense = "past" if chance(rng, 0.15) else "present"
    return main_clause(rng, Clause(first, BE, tense, complement=predicate, negated=negated))
