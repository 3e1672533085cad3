"""Random noun phrases and pronouns: who and what the sentences of the built-in corpus are about.

A third-person possessive always refers to the `owner`, the subject of its clause, so that the sentence itself
decides between "her" and "their" for "ihr". Relatives ("kin") always belong to someone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from .choices import Weighted, chance, pick, pick_number, pick_weighted
from .lexicon import ADJECTIVES_OF_KIND, NOUNS, PEOPLE_KINDS, Noun
from .phrases import (
    ALL,
    BARE,
    DEFINITE,
    DU,
    ER,
    EVERY,
    ICH,
    IHR,
    INDEFINITE,
    MANY,
    NAME,
    NO_OBJECT,
    NO_SUBJECT,
    SIE,
    SIE_PLURAL,
    THIS,
    WIR,
    Determiner,
    Nominal,
    NounPhrase,
    Pronoun,
    count,
    possessive,
)

SINGULAR, PLURAL = "singular", "plural"

NOUNS_OF_KIND = {
    kind: [noun for noun in NOUNS.values() if noun.kind == kind]
    for kind in dict.fromkeys(noun.kind for noun in NOUNS.values())
}

# Kinds of things that may be called somebody's, "das Auto des Lehrers", and kinds that take no possessive at all.
OWNED_KINDS = ("vehicle", "clothing", "container", "text", "house", "room", "picture", "animal", "tool")
PUBLIC_KINDS = ("event", "transport", "building", "town", "outdoors", "stop")

SUBJECT_PRONOUNS = [(5, ICH), (2, DU), (3, ER), (3, SIE), (4, WIR), (1, IHR), (3, SIE_PLURAL)]
PROTAGONIST_PRONOUNS = [(5, ICH), (1, DU), (3, ER), (3, SIE), (4, WIR), (0.5, IHR), (3, SIE_PLURAL)]


def subject(rng: Random, kinds: Sequence[str] = ("person",)) -> Nominal:
    """A subject; a third-person pronoun without antecedent stands for people: "he", "she", "they"."""
    if "person" not in kinds:
        return thing(rng, kinds, reference="definite")
    if "animal" in kinds and chance(rng, 0.15):
        return thing(rng, ("animal",), reference="definite")
    if chance(rng, 0.3):
        return pick_weighted(rng, SUBJECT_PRONOUNS)
    if chance(rng, 0.04):
        phrase = NounPhrase(common_noun(rng), NO_SUBJECT)
        return with_adjective(rng, phrase, 0.15)
    return person(rng)


def protagonist(rng: Random) -> Nominal:
    """A subject that a pronoun in a second clause can stand for."""
    if chance(rng, 0.25):
        return pick_weighted(rng, PROTAGONIST_PRONOUNS)
    while True:
        who = person(rng, reference="definite")
        if can_own(who):
            return who


def is_person(nominal: Nominal) -> bool:
    """Whether a subject is a person, who can want to do something or have to do it."""
    return isinstance(nominal, Pronoun) or nominal.noun.kind in PEOPLE_KINDS


def is_quantified(nominal: Nominal) -> bool:
    """Whether a subject has "kein", "jeder" or the like, which leaves no room for a negation."""
    return isinstance(nominal, NounPhrase) and nominal.determiner in (NO_SUBJECT, EVERY, ALL, MANY)


def object_pronoun(rng: Random, subject: Nominal, case: str) -> Pronoun | None:
    """A personal pronoun as the object of a clause with this subject.

    Third-person objects only go with a first or second person as subject, and "sie" is left out as an
    accusative: nothing in the sentence would decide between "her" and "them".
    """
    person_, first, second = subject.pronoun.german.person, (ICH, WIR), (DU, IHR)
    third = (ER,) if case == "accusative" else (ER, SIE, SIE_PLURAL)
    choices = {1: second + third, 2: first + third, 3: first + second}[person_]
    return pick(rng, choices)


def common_noun(rng: Random) -> Noun:
    """A word for people, but not for relatives."""
    return pick(rng, NOUNS_OF_KIND["person"] + NOUNS_OF_KIND["child"])


def person(rng: Random, owner: Nominal | None = None, reference: str = "any") -> NounPhrase:
    """A noun phrase for people, never with the noun of its owner ("Peter" does not call Peter)."""
    while True:
        phrase = pick_weighted(rng, PERSON_PHRASES if reference == "any" else DEFINITE_PERSONS)(rng, owner)
        if not (isinstance(owner, NounPhrase) and owner.noun is phrase.noun):
            return phrase


def name(rng: Random, owner: Nominal | None = None) -> NounPhrase:
    """A name."""
    return NounPhrase(pick(rng, NOUNS_OF_KIND["name"]), NAME)


def definite_person(rng: Random, owner: Nominal | None = None) -> NounPhrase:
    """A phrase like "der alte Lehrer", "diese Kinder"."""
    determiner = THIS if chance(rng, 0.15) else DEFINITE
    number = PLURAL if chance(rng, 0.35) else SINGULAR
    return with_adjective(rng, NounPhrase(common_noun(rng), determiner, number), 0.3)


def indefinite_person(rng: Random, owner: Nominal | None = None) -> NounPhrase:
    """A phrase like "ein Student", "drei Kinder", "jedes Mädchen"."""
    determiner, number = pick_weighted(
        rng,
        [
            (4, (INDEFINITE, SINGULAR)),
            (2, (EVERY, SINGULAR)),
            (2, (ALL, PLURAL)),
            (2, (MANY, PLURAL)),
            (2, (small_count(rng), PLURAL)),
        ],
    )
    return with_adjective(rng, NounPhrase(common_noun(rng), determiner, number), 0.2)


def relative(rng: Random, owner: Nominal | None = None) -> NounPhrase:
    """A phrase like "meine Schwester", "Annas Bruder", "die Mutter des Lehrers"."""
    noun = pick(rng, NOUNS_OF_KIND["kin"])
    if chance(rng, 0.2):
        return NounPhrase(noun, DEFINITE, genitive=acquainted_owner(rng, owner))
    if chance(rng, 0.15):
        return NounPhrase(noun, possessive(other_name(rng, owner)))
    number = PLURAL if noun.german in ("Bruder", "Schwester", "Freund") and chance(rng, 0.3) else SINGULAR
    phrase = NounPhrase(noun, possessive(choose_owner(rng, owner)), number)
    return with_adjective(rng, phrase, 0.1)


def acquaintance(rng: Random, owner: Nominal | None = None) -> NounPhrase:
    """A phrase like "mein Nachbar", "unsere Lehrerinnen"."""
    noun = NOUNS[pick(rng, ("Lehrer", "Lehrerin", "Arzt", "Nachbar", "Kind", "Student"))]
    number = PLURAL if chance(rng, 0.3) else SINGULAR
    return with_adjective(rng, NounPhrase(noun, possessive(choose_owner(rng, owner)), number), 0.15)


DEFINITE_PERSONS = [(25, name), (25, definite_person), (22, relative), (6, acquaintance)]
PERSON_PHRASES = [*DEFINITE_PERSONS, (12, indefinite_person)]


def genitive(rng: Random, owner: Nominal | None) -> NounPhrase:
    """The owner of a thing, other than the subject of the clause: "des Lehrers", "meiner Schwester"."""
    if chance(rng, 0.35):
        return NounPhrase(pick(rng, NOUNS_OF_KIND["kin"]), possessive(pick(rng, (ICH, DU, WIR))))
    return acquainted_owner(rng, owner)


def acquainted_owner(rng: Random, owner: Nominal | None) -> NounPhrase:
    """An owner in the genitive who is not a relative: "des Lehrers", "der Kinder"."""
    while True:
        noun = common_noun(rng)
        if not (isinstance(owner, NounPhrase) and owner.noun is noun):
            return NounPhrase(noun, DEFINITE, PLURAL if chance(rng, 0.25) else SINGULAR)


def choose_owner(rng: Random, owner: Nominal | None) -> Pronoun:
    """Who a possessive refers to: mostly the owner, else the first or second person."""
    if owner and can_own(owner) and chance(rng, 0.75):
        return owner.pronoun
    person = owner.pronoun.german.person if owner else 3
    others = [(4, ICH), (2, DU), (2, WIR), (0.7, IHR)]  # but not "wir" and "mein"
    return pick_weighted(rng, [(weight, other) for weight, other in others if other.german.person != person])


def can_own(owner: Nominal) -> bool:
    """Whether English has a possessive for this owner; "das Kind" would need "his" or "her"."""
    return isinstance(owner, Pronoun) or owner.number == PLURAL or owner.noun.pronoun != ""


def other_name(rng: Random, owner: Nominal | None) -> NounPhrase:
    """A name other than the owner's."""
    while True:
        phrase = name(rng)
        if not (isinstance(owner, NounPhrase) and owner.noun is phrase.noun):
            return phrase


def small_count(rng: Random) -> Determiner:
    """A number word from two to twelve."""
    return count(pick_number(rng, 2, 12))


def pick_countable(rng: Random, low: int, high: int) -> int:
    """A number that can stand before a plural; 101 cannot, because German would inflect its "ein"."""
    number = pick_number(rng, low, high)
    return number + 1 if number % 100 == 1 else number


def thing(rng: Random, kinds: Sequence[str], owner: Nominal | None = None, reference: str = "any") -> NounPhrase:
    """A noun phrase for a thing or an animal, with a determiner that suits the `reference` (see `determiners_for`)."""
    nouns = [noun for kind in kinds for noun in NOUNS_OF_KIND[kind]]
    noun = pick(rng, [noun for noun in nouns if not (isinstance(owner, NounPhrase) and owner.noun is noun)])
    if noun.kind == "city":
        return NounPhrase(noun, NAME)
    determiner, number = pick_weighted(rng, determiners_for(rng, noun, owner, reference))
    phrase = NounPhrase(noun, determiner, number)
    if determiner is DEFINITE and noun.kind in OWNED_KINDS and chance(rng, 0.12):
        return with_adjective(rng, replace(phrase, genitive=genitive(rng, owner)), 0.2)
    return with_adjective(rng, phrase, 0.33)


def determiners_for(
    rng: Random, noun: Noun, owner: Nominal | None, reference: str
) -> Weighted[tuple[Determiner, str]]:
    """Determiners and numbers that a noun can take, with their weights.

    The reference is "any", "definite", "indefinite", "generic" ("Äpfel", "Milch"), "negative" ("keinen
    Apfel"), "new" (what one buys, which is not one's own yet) or "single" (what one wears).
    """
    uncounted = not noun.plural or noun.kind == "meal"
    bare = (BARE, SINGULAR if uncounted else PLURAL)
    if reference == "generic":
        return [(1, bare)]
    if reference == "negative":
        return [(2, (NO_OBJECT, SINGULAR)), (0 if uncounted else 1, (NO_OBJECT, PLURAL))]
    plural = 0 if uncounted or reference == "single" else 1
    own = 0 if noun.kind in PUBLIC_KINDS or reference == "new" else 1
    named = own if noun.kind in OWNED_KINDS else 0
    owned = possessive(choose_owner(rng, owner))
    definite = [
        (6, (DEFINITE, SINGULAR)),
        (2 * plural, (DEFINITE, PLURAL)),
        (3 * own, (owned, SINGULAR)),
        (plural * own, (owned, PLURAL)),
        (1 if noun.plural else 0, (THIS, SINGULAR)),
        (0.5 * plural, (THIS, PLURAL)),
        (0.5 * named, (possessive(other_name(rng, owner)), SINGULAR)),
    ]
    if reference == "definite":
        return definite
    indefinite = [
        (6 if noun.plural else 0, (INDEFINITE, SINGULAR)),
        (10 if uncounted else 2 * plural, bare),
        (1.5 * plural, (small_count(rng), PLURAL)),
        (0.7 * plural, (MANY, PLURAL)),
        (0.3 * plural, (ALL, PLURAL)),
    ]
    return indefinite if reference == "indefinite" else definite + indefinite


def place(rng: Random, kinds: Sequence[str], owner: Nominal | None = None) -> NounPhrase:
    """A noun phrase for a place."""
    noun = pick(rng, [noun for kind in kinds for noun in NOUNS_OF_KIND[kind]])
    if noun.kind == "city":
        return NounPhrase(noun, NAME)
    if noun.kind in PEOPLE_KINDS:
        return person(rng, owner, "definite")
    private = noun.kind in ("room", "house", "furniture", "table", "container", "cupboard", "fridge")
    some = noun.kind in ("building", "outdoors", "house")
    determiner = pick_weighted(
        rng,
        [
            (8, DEFINITE),
            (2 if private else 0, possessive(choose_owner(rng, owner))),
            (1, THIS),
            (1 if some else 0, INDEFINITE),
        ],
    )
    return with_adjective(rng, NounPhrase(noun, determiner), 0.2)


def with_adjective(rng: Random, phrase: NounPhrase, probability: float) -> NounPhrase:
    """The phrase with an adjective before its noun, with some probability."""
    if phrase.determiner is NAME or not chance(rng, probability):
        return phrase
    adjective = pick(rng, ADJECTIVES_OF_KIND[phrase.noun.kind])
    degree = "positive"
    if chance(rng, 0.1):
        if adjective.superlative and phrase.determiner is DEFINITE:
            degree = "superlative"
        elif adjective.comparative and phrase.determiner is INDEFINITE and not is_person(phrase):
            degree = "comparative"
    return replace(phrase, adjective=adjective, degree=degree)
