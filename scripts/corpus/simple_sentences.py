"""Statements of one clause: events, descriptions, comparisons, who or what something is, likes and possession."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import english, german
from .choices import chance, pick, pick_weighted
from .clauses import event, main_clause
from .frames import kinds
from .lexicon import ADJECTIVES_OF_KIND, NOUNS, Adjective
from .nominals import (
    NOUNS_OF_KIND,
    PLURAL,
    SINGULAR,
    SUBJECT_PRONOUNS,
    is_person,
    is_quantified,
    name,
    person,
    relative,
    thing,
    with_adjective,
)
from .phrases import (
    DEFINITE,
    EVERY,
    THIS,
    Clause,
    Nominal,
    NounPhrase,
    Phrase,
    Pronoun,
)
from .verbs import VERBS

BE = VERBS["sein"]

INTENSIFIERS = [Phrase("sehr", "very"), Phrase("zu", "too"), Phrase("ziemlich", "quite")]

# Kinds of things that are described and compared, and kinds that people like.
DESCRIBED_KINDS = kinds(
    "animal food meal drink text letter event clothing thing picture container cupboard furniture table "
    "vehicle transport door room house building town stop city"
)
LIKED_KINDS = kinds(
    "text story event clothing thing picture furniture table vehicle room house building town city animal"
)


def statement(rng: Random) -> Phrase:
    """A sentence like "Gestern hat Anna im Garten ein Buch gelesen"."""
    return main_clause(rng, event(rng))


def description(rng: Random) -> Phrase:
    """A sentence like "Die Suppe war nicht warm"."""
    clause = describing_clause(rng, described(rng), "past" if chance(rng, 0.3) else "present")
    return main_clause(rng, replace(clause, negated=chance(rng, 0.2) and not is_quantified(clause.subject)))


def describing_clause(rng: Random, who: Nominal, tense: str = "present") -> Clause:
    """A clause with "sein" and an adjective: "Der Tisch ist sehr alt"."""
    adjective = pick(rng, adjectives_for(who))
    clause = described_as(who, adjective, tense)
    if not adjective.comparative or not chance(rng, 0.35):
        return clause
    intensifier = pick(rng, INTENSIFIERS)
    predicate = Phrase(f"{intensifier.german} {adjective.german}", f"{intensifier.english} {adjective.english}")
    return replace(clause, complement=predicate)


def described_as(who: Nominal, adjective: Adjective, tense: str) -> Clause:
    """A clause with "sein" and this adjective: "Der Tisch ist alt"."""
    if isinstance(who, NounPhrase) and who.adjective is adjective:  # not "Der müde Junge ist müde"
        who = replace(who, adjective=None, degree="positive")
    return Clause(who, BE, tense, complement=Phrase(adjective.german, adjective.english))


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
    """A comparison: "Mein Koffer ist schwerer als die Tasche", "Anna ist nicht so alt wie Peter"."""
    first, second = compared(rng)
    adjective = pick(rng, [a for a in adjectives_for(first) if a.comparative and a in adjectives_for(second)])
    standard = Phrase(german.nominal(second, "nominative"), english.nominal(second, "object"))
    tense = "past" if chance(rng, 0.15) else "present"
    if chance(rng, 0.6):
        predicate = Phrase(
            f"{adjective.comparative} als {standard.german}",
            f"{adjective.english_comparative} than {standard.english}",
        )
        return main_clause(rng, Clause(first, BE, tense, complement=predicate))
    predicate = Phrase(f"so {adjective.german} wie {standard.german}", f"as {adjective.english} as {standard.english}")
    negated = chance(rng, 0.4) and not is_quantified(first)
    return main_clause(rng, Clause(first, BE, tense, complement=predicate, negated=negated))


def compared(rng: Random) -> tuple[Nominal, NounPhrase]:
    """Two people or two things of a kind; if both have the same noun, determiners like "mein" and "dein" differ."""
    while True:
        first = described(rng)
        if is_person(first):
            second = person(rng, reference="definite")
        else:
            second = thing(rng, (first.noun.kind,), reference="definite")
        second = replace(second, adjective=None, degree="positive")
        if isinstance(first, Pronoun) or first.noun is not second.noun:
            return first, second
        determiners = {first.determiner, second.determiner}
        if len(determiners) == 2 and DEFINITE not in determiners and first.number == second.number:
            return first, second


def identification(rng: Random) -> Phrase:
    """A sentence like "Das ist mein neuer Lehrer", "Das waren Annas Schuhe"."""
    while True:
        phrase = person(rng) if chance(rng, 0.3) else thing(rng, (pick(rng, LIKED_KINDS),))
        if phrase.determiner not in (DEFINITE, THIS, EVERY) or phrase.genitive:
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
    """A sentence like "Das ist das älteste Haus der Stadt"."""
    noun = pick(rng, [*NOUNS_OF_KIND["building"], *NOUNS_OF_KIND["house"], NOUNS["Park"], NOUNS["Garten"]])
    adjective = pick(rng, [a for a in ADJECTIVES_OF_KIND[noun.kind] if a.superlative])
    phrase = NounPhrase(noun, DEFINITE, adjective=adjective, degree="superlative")
    sentence = that_is(rng, phrase)
    if chance(rng, 0.5):
        return Phrase(sentence.german + " der Stadt", sentence.english + " in the city")
    city = pick(rng, NOUNS_OF_KIND["city"])
    return Phrase(f"{sentence.german} in {city.german}", f"{sentence.english} in {city.english}")


def profession(rng: Random) -> Phrase:
    """A sentence like "Julia ist Lehrerin", where German has no article."""
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
    """A sentence like "Mir gefällt das Haus", "Der Film hat den Kindern nicht gefallen"."""
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
        [noun for kind in ("animal", "clothing", "container", "vehicle", "text") for noun in NOUNS_OF_KIND[kind]],
    )
    owned = NounPhrase(noun, pick(rng, (DEFINITE, THIS)), PLURAL if chance(rng, 0.3) else SINGULAR)
    owned = with_adjective(rng, owned, 0.4)
    return Clause(owned, VERBS["gehören"], indirect=particular_person(rng), negated=chance(rng, 0.2))


def belonging(rng: Random) -> Phrase:
    """A sentence like "Das rote Auto gehört meinem Bruder"."""
    return main_clause(rng, belonging_clause(rng))
