"""Sentences with numbers: how many things there are, what they cost, how old, long or far away they are."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import english, german
from .choices import chance, pick, pick_weighted
from .clauses import clock_phrase, event, length_of_time, main_clause, prepositional_phrase
from .frames import frames_of, kinds
from .lexicon import UNITS, Adverbial, Preposition, read_table
from .nominals import (
    NOUNS_OF_KIND,
    PLURAL,
    SINGULAR,
    person,
    pick_countable,
    place,
    small_count,
    thing,
    with_adjective,
)
from .numbers import english_number, german_number
from .phrases import (
    BARE,
    INDEFINITE,
    MANY,
    NO_SUBJECT,
    Clause,
    Nominal,
    NounPhrase,
    Phrase,
    count,
)
from .simple_sentences import BE, particular_person
from .verbs import VERBS

SOLD_KINDS = kinds("clothing picture furniture table container fridge thing")

# Kinds of place, and what there is in them.
CONTENTS = [
    (kinds(places), kinds(contents))
    for places, contents in read_table("""
        room       furniture table cupboard picture thing door
        house      room door
        town       building
        city       building
        container  clothing text tool
        cupboard   clothing text container
        fridge     food drink
        building   picture child
    """)
]

# Frames that also say for how long something has been going on, with the units of time that suit them.
LASTING_FRAMES = [
    (frame, units.split())
    for verbs, units in read_table("""
        wohnen, arbeiten                                     Jahr Woche Tag
        schlafen, tanzen, fern|sehen, sitzen, suchen         Stunde Minute
        warten, sprechen                                     Stunde Minute
    """)
    for _, frames in frames_of(verbs)
    for frame in frames
    if "person" in frame.subjects
]


def existence(rng: Random) -> Phrase:
    """A sentence like "In der Küche gibt es zwei Tische"."""
    places, contents = pick(rng, CONTENTS)
    where = prepositional_phrase(Preposition("in", "dative", "in"), place(rng, places))
    what = content(rng, pick(rng, contents))
    german_what = german.nominal(what, "accusative")
    be = "are" if what.number == PLURAL else "is"
    sentence = f"there {be} {english.nominal(what, 'object')} {where.english}"
    if chance(rng, 0.5):
        return Phrase(f"{where.german} gibt es {german_what}", sentence)
    return Phrase(f"es gibt {where.german} {german_what}", sentence)


def content(rng: Random, kind: str) -> NounPhrase:
    """An indefinite noun phrase: "ein Tisch", "keine Tische", "zwei Tische", "Milch"."""
    noun = pick(rng, NOUNS_OF_KIND[kind])
    if not noun.plural:
        return with_adjective(rng, NounPhrase(noun, pick(rng, (BARE, NO_SUBJECT))), 0.2)
    many = count(pick_countable(rng, 2, 99)) if kind in ("picture", "child") else small_count(rng)
    determiner, number = pick_weighted(
        rng,
        [(4, (INDEFINITE, SINGULAR)), (1, (NO_SUBJECT, SINGULAR)), (1, (MANY, PLURAL)), (4, (many, PLURAL))],
    )
    return with_adjective(rng, NounPhrase(noun, determiner, number), 0.3)


def price(rng: Random) -> Phrase:
    """A sentence like "Der blaue Mantel kostet zweihundertdreißig Euro"."""
    what = thing(rng, (pick(rng, SOLD_KINDS),), reference="definite")
    tense = "past" if chance(rng, 0.3) else "present"
    return main_clause(rng, Clause(what, VERBS["kosten"], tense, complement=amount(rng, "Euro", 2, 999)))


def amount(rng: Random, unit: str, low: int, high: int) -> Phrase:
    """A number of units: "zwölf Seiten"."""
    number = pick_countable(rng, low, high)
    _, plural, _, english_plural = UNITS[unit]
    return Phrase(f"{german_number(number)} {plural}", f"{english_number(number)} {english_plural}")


def age(rng: Random) -> Phrase:
    """A sentence like "Anna ist einundzwanzig Jahre alt"."""
    if chance(rng, 0.3):
        who, limits = thing(rng, ("building", "house"), reference="definite"), (2, 999)
    else:
        who = particular_person(rng)
        limits = ages(who)
    years = amount(rng, "Jahr", *limits)
    return main_clause(rng, Clause(who, BE, complement=Phrase(years.german + " alt", years.english + " old")))


def ages(who: Nominal) -> tuple[int, int]:
    """The lowest and highest plausible age of a person."""
    if isinstance(who, NounPhrase) and who.noun.kind == "child":
        return 2, 15
    if isinstance(who, NounPhrase) and who.noun.german in ("Vater", "Mutter", "Großmutter"):
        return 50, 99
    return 16, 99


def length_in_pages(rng: Random) -> Phrase:
    """A sentence like "Das Buch hat dreihundertfünfundvierzig Seiten"."""
    what = thing(rng, ("text",), reference="definite")
    return main_clause(rng, Clause(what, VERBS["haben"], complement=amount(rng, "Seite", 2, 999)))


def distance(rng: Random) -> Phrase:
    """A sentence like "Der Bahnhof ist zwei Kilometer von der Schule entfernt"."""
    while True:
        first, second = place(rng, kinds("building stop")), place(rng, kinds("building stop city"))
        if first.noun is not second.noun and INDEFINITE not in (first.determiner, second.determiner):
            break
    away = amount(rng, "Kilometer", 2, 99)
    start = prepositional_phrase(Preposition("von", "dative", "from"), second)
    predicate = Phrase(f"{away.german} {start.german} entfernt", f"{away.english} {start.english}")
    return main_clause(rng, Clause(first, BE, complement=predicate))


def timetable(rng: Random) -> Phrase:
    """A sentence like "Der Zug kommt um halb drei in Berlin an", "Der Film beginnt um acht Uhr"."""
    clock = clock_phrase(rng)
    tense = pick(rng, ("habitual", "habitual", "past", "future"))
    time = Adverbial("um " + clock.german, "at " + clock.english, tense)
    if chance(rng, 0.3):
        return main_clause(
            rng, Clause(thing(rng, ("event",), reference="definite"), VERBS["beginnen"], tense, time=time)
        )
    city = pick(rng, NOUNS_OF_KIND["city"])
    verb, where = pick(
        rng,
        [
            (VERBS["an|kommen"], Phrase("in " + city.german, "in " + city.english)),
            (VERBS["ab|fahren"], Phrase("nach " + city.german, "for " + city.english)),
        ],
    )
    what = thing(rng, ("transport",), reference="definite")
    return main_clause(rng, Clause(what, verb, tense, complement=where, time=time))


def clock(rng: Random) -> Phrase:
    """A sentence like "Es ist Viertel nach sieben"."""
    time = clock_phrase(rng)
    return Phrase("es ist " + time.german, "it is " + time.english)


def duration(rng: Random) -> Phrase:
    """A sentence like "Anna wohnt seit drei Jahren in Berlin", where English has "has been living"."""
    frame, units = pick(rng, LASTING_FRAMES)
    length = length_of_time(rng, units)
    clause = event(rng, person(rng), tenses=("present",), negation=0, frames=[(1, [frame])])
    time = Adverbial("seit " + length.german, "for " + length.english, "duration")
    return main_clause(rng, replace(clause, tense="duration", time=time))
