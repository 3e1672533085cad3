"""Statements of one clause: events, descriptions, comparisons, possession, numbers and clock times."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import english, german
from .choices import chance, pick, pick_weighted
from .clauses import clock_phrase, event, length_of_time, main_clause, prepositional_phrase
from .frames import INTRANSITIVE, POSITION, PREPOSITIONAL, TRANSITIVE
from .lexicon import ADJECTIVES_OF_KIND, NOUNS, UNITS, Adjective, Adverbial, Preposition
from .nominals import (
    NOUNS_OF_KIND,
    PLURAL,
    SINGULAR,
    SUBJECT_PRONOUNS,
    is_person,
    is_quantified,
    name,
    person,
    pick_countable,
    place,
    relative,
    small_count,
    thing,
    with_adjective,
)
from .numbers import english_number, german_number
from .phrases import (
    BARE,
    DEFINITE,
    INDEFINITE,
    MANY,
    NO_SUBJECT,
    THIS,
    Clause,
    Nominal,
    NounPhrase,
    Phrase,
    count,
)
from .verbs import VERBS

BE = VERBS["sein"]

INTENSIFIERS = [Phrase("sehr", "very"), Phrase("zu", "too"), Phrase("ziemlich", "quite")]

# Kinds of thing that one describes and compares, and kinds that one likes.
DESCRIBED_KINDS = (
    *("animal", "food", "meal", "drink", "text", "letter", "event", "clothing", "picture", "container"),
    *("cupboard", "furniture", "vehicle", "transport", "room", "house", "building", "town", "stop", "city"),
)
LIKED_KINDS = (
    *("text", "story", "event", "clothing", "picture", "furniture", "vehicle"),
    *("room", "house", "building", "town", "city", "animal"),
)
SOLD_KINDS = ("clothing", "picture", "furniture", "container", "fridge", "thing")

# Kinds of place, and what there is in them.
CONTENTS = (
    ("room", ("furniture", "cupboard", "picture")),
    ("house", ("room", "door")),
    ("town", ("building", "outdoors")),
    ("city", ("building",)),
    ("container", ("clothing", "text", "tool")),
    ("cupboard", ("clothing", "text", "container")),
    ("fridge", ("food", "drink")),
    ("building", ("picture", "child")),
)

# Frames that also say for how long something has been going on, with the units of time that suit them.
LASTING_FRAMES = [
    (frame, ("Jahr", "Woche", "Tag") if verb in ("wohnen", "arbeiten") else ("Stunde", "Minute"))
    for verb in (
        "wohnen",
        "arbeiten",
        "schlafen",
        "tanzen",
        "fern|sehen",
        "warten",
        "sprechen",
        "sitzen",
        "suchen",
    )
    for frame in (*INTRANSITIVE, *TRANSITIVE, *PREPOSITIONAL, *POSITION)
    if frame.verb is VERBS[verb] and "person" in frame.subjects
]


def statement(rng: Random) -> Phrase:
    """ "Gestern hat Anna im Garten ein Buch gelesen." """
    return main_clause(rng, event(rng))


def description(rng: Random) -> Phrase:
    """ "Die Suppe war nicht warm." """
    clause = describing_clause(rng, described(rng), "past" if chance(rng, 0.3) else "present")
    return main_clause(rng, replace(clause, negated=chance(rng, 0.2) and not is_quantified(clause.subject)))


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


def adjectives_for(nominal: Nominal) -> list[Adjective]:
    """The adjectives that say something about a subject."""
    if not is_person(nominal):
        return ADJECTIVES_OF_KIND[nominal.noun.kind]
    is_child = isinstance(nominal, NounPhrase) and nominal.noun.kind == "child"
    return ADJECTIVES_OF_KIND["child" if is_child else "person"]


def described(rng: Random) -> Nominal:
    """A person or a thing to say something about, without an adjective of its own."""
    if not chance(rng, 0.4):
        nominal = thing(rng, (pick(rng, DESCRIBED_KINDS),), reference="definite")
    elif chance(rng, 0.3):
        return pick_weighted(rng, SUBJECT_PRONOUNS)
    else:
        nominal = person(rng)
    return replace(nominal, adjective=None)


def comparison(rng: Random) -> Phrase:
    """ "Mein Koffer ist schwerer als die Tasche", "Anna ist nicht so alt wie Peter"."""
    first = described(rng)
    second = standard_of_comparison(rng, first)
    adjective = pick(rng, [a for a in adjectives_for(first) if a.comparative])
    standard = Phrase(german.nominal(second, "nominative"), english.nominal(second, "object"))
    tense = "past" if chance(rng, 0.15) else "present"
    negated = chance(rng, 0.4) and not is_quantified(first)
    if chance(rng, 0.6):
        predicate = Phrase(
            f"{adjective.comparative} als {standard.german}",
            f"{adjective.english_comparative} than {standard.english}",
        )
        return main_clause(rng, Clause(first, BE, tense, complement=predicate))
    predicate = Phrase(
        f"so {adjective.german} wie {standard.german}", f"as {adjective.english} as {standard.english}"
    )
    return main_clause(rng, Clause(first, BE, tense, complement=predicate, negated=negated))


def standard_of_comparison(rng: Random, first: Nominal) -> NounPhrase:
    """What a person or a thing is compared with: something of its kind, as "dein Koffer" for "mein Koffer"."""
    while True:
        second = person(rng) if is_person(first) else thing(rng, (first.noun.kind,), reference="definite")
        second = replace(second, adjective=None, degree="positive")
        if not isinstance(first, NounPhrase) or second.noun is not first.noun:
            return second
        if not is_person(first) and second.number == first.number and second.determiner != first.determiner:
            return second


def identification(rng: Random) -> Phrase:
    """ "Das ist mein neuer Lehrer", "Das waren Annas Schuhe"."""
    while True:
        phrase = person(rng) if chance(rng, 0.3) else thing(rng, (pick(rng, LIKED_KINDS),))
        if phrase.determiner is not DEFINITE or phrase.adjective or phrase.genitive:
            return that_is(rng, phrase)


def that_is(rng: Random, phrase: NounPhrase) -> Phrase:
    """A sentence that points at someone or something."""
    past, plural = chance(rng, 0.2), phrase.number == PLURAL
    german_verb = ("waren" if plural else "war") if past else ("sind" if plural else "ist")
    english_verb = ("were" if plural else "was") if past else ("are" if plural else "is")
    return Phrase(
        f"das {german_verb} {german.nominal(phrase, 'nominative')}",
        f"{'those' if plural else 'that'} {english_verb} {english.nominal(phrase, 'object')}",
    )


def superlative(rng: Random) -> Phrase:
    """ "Das ist das älteste Haus der Stadt." """
    noun = pick(rng, [*NOUNS_OF_KIND["building"], *NOUNS_OF_KIND["house"], NOUNS["Park"], NOUNS["Garten"]])
    adjective = pick(rng, [a for a in ADJECTIVES_OF_KIND[noun.kind] if a.superlative])
    phrase = NounPhrase(noun, DEFINITE, adjective=adjective, degree="superlative")
    sentence = that_is(rng, phrase)
    if chance(rng, 0.5):
        return Phrase(sentence.german + " der Stadt", sentence.english + " in the city")
    city = pick(rng, NOUNS_OF_KIND["city"])
    return Phrase(f"{sentence.german} in {city.german}", f"{sentence.english} in {city.english}")


def profession(rng: Random) -> Phrase:
    """ "Julia ist Ärztin", where German has no article."""
    who = name(rng) if chance(rng, 0.4) else relative(rng)
    who = replace(who, number=SINGULAR, adjective=None)
    professions = ("Lehrerin",) if who.noun.gender == "f" else ("Lehrer", "Arzt", "Student")
    noun = NOUNS[pick(rng, professions)]
    tense = "past" if chance(rng, 0.3) else "present"
    return main_clause(rng, Clause(who, BE, tense, complement=Phrase(noun.german, "a " + noun.english)))


def liking_clause(rng: Random, experiencer: Nominal) -> Clause:
    """A clause with "gefallen", whose dative is the English subject: "Mir gefällt das Haus"."""
    liked = thing(rng, (pick(rng, LIKED_KINDS),), reference="definite")
    tense = "past" if chance(rng, 0.3) else "present"
    return Clause(liked, VERBS["gefallen"], tense, indirect=experiencer, negated=chance(rng, 0.25))


def liking(rng: Random) -> Phrase:
    """ "Mir gefällt das Haus", "Der Film hat den Kindern nicht gefallen"."""
    clause = liking_clause(rng, particular_person(rng))
    front = "indirect" if chance(rng, 0.5) else "subject"
    return Phrase(german.verb_second(clause, front), english.statement(clause))


def particular_person(rng: Random) -> Nominal:
    """Somebody who likes or owns something, or has an age."""
    return pick_weighted(rng, SUBJECT_PRONOUNS) if chance(rng, 0.4) else person(rng, reference="definite")


def belonging_clause(rng: Random) -> Clause:
    """A clause with "gehören": "Das rote Auto gehört meinem Bruder"."""
    noun = pick(
        rng,
        [
            noun
            for kind in ("animal", "clothing", "container", "vehicle", "text")
            for noun in NOUNS_OF_KIND[kind]
        ],
    )
    owned = NounPhrase(noun, pick(rng, (DEFINITE, THIS)), PLURAL if chance(rng, 0.3) else SINGULAR)
    owned = with_adjective(rng, owned, 0.4)
    return Clause(owned, VERBS["gehören"], indirect=particular_person(rng), negated=chance(rng, 0.2))


def belonging(rng: Random) -> Phrase:
    """ "Das rote Auto gehört meinem Bruder." """
    return main_clause(rng, belonging_clause(rng))


def existence(rng: Random) -> Phrase:
    """ "In der Küche gibt es zwei Tische." """
    place_kind, contents = pick(rng, CONTENTS)
    where = prepositional_phrase(Preposition("in", "dative", "in"), place(rng, (place_kind,)))
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
    many = count(pick_countable(rng, 2, 999)) if kind in ("picture", "child") else small_count(rng)
    determiner, number = pick_weighted(
        rng,
        [(4, (INDEFINITE, SINGULAR)), (1, (NO_SUBJECT, SINGULAR)), (1, (MANY, PLURAL)), (4, (many, PLURAL))],
    )
    return with_adjective(rng, NounPhrase(noun, determiner, number), 0.3)


def price(rng: Random) -> Phrase:
    """ "Der blaue Mantel kostet zweihundertdreißig Euro." """
    what = thing(rng, (pick(rng, SOLD_KINDS),), reference="definite")
    tense = "past" if chance(rng, 0.3) else "present"
    return main_clause(rng, Clause(what, VERBS["kosten"], tense, complement=amount(rng, "Euro", 2, 999)))


def amount(rng: Random, unit: str, low: int, high: int) -> Phrase:
    """A number of units: "zwölf Seiten"."""
    number = pick_countable(rng, low, high)
    _, plural, _, english_plural = UNITS[unit]
    return Phrase(f"{german_number(number)} {plural}", f"{english_number(number)} {english_plural}")


def age(rng: Random) -> Phrase:
    """ "Anna ist einundzwanzig Jahre alt." """
    if chance(rng, 0.3):
        who, limits = thing(rng, ("building", "house"), reference="definite"), (2, 999)
    else:
        who = particular_person(rng)
        is_child = isinstance(who, NounPhrase) and who.noun.kind == "child"
        limits = (2, 15) if is_child else (16, 99)
    years = amount(rng, "Jahr", *limits)
    return main_clause(rng, Clause(who, BE, complement=Phrase(years.german + " alt", years.english + " old")))


def length_in_pages(rng: Random) -> Phrase:
    """ "Das Buch hat dreihundertfünfundvierzig Seiten." """
    what = thing(rng, ("text",), reference="definite")
    return main_clause(rng, Clause(what, VERBS["haben"], complement=amount(rng, "Seite", 2, 999)))


def distance(rng: Random) -> Phrase:
    """ "Der Bahnhof ist zwei Kilometer von der Schule entfernt." """
    first, second = place(rng, ("building", "stop")), place(rng, ("building", "stop", "city"))
    while second.noun is first.noun:
        second = place(rng, ("building", "stop", "city"))
    away = amount(rng, "Kilometer", 2, 99)
    start = prepositional_phrase(Preposition("von", "dative", "from"), second)
    predicate = Phrase(f"{away.german} {start.german} entfernt", f"{away.english} {start.english}")
    return main_clause(rng, Clause(first, BE, complement=predicate))


def timetable(rng: Random) -> Phrase:
    """ "Der Zug kommt um halb drei in Berlin an", "Der Film beginnt um acht Uhr"."""
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
    """ "Es ist Viertel nach sieben." """
    time = clock_phrase(rng)
    return Phrase("es ist " + time.german, "it is " + time.english)


def duration(rng: Random) -> Phrase:
    """ "Anna wohnt seit drei Jahren in Berlin", where English looks back: "has been living"."""
    frame, units = pick(rng, LASTING_FRAMES)
    length = length_of_time(rng, units)
    clause = event(rng, person(rng), tenses=("present",), negation=0, frames=[(1, [frame])])
    time = Adverbial("seit " + length.german, "for " + length.english, "duration")
    return main_clause(rng, replace(clause, tense="duration", time=time))
