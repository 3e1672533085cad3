"""Sentences with a relative clause: its pronoun has the gender of the noun and the case of its own role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from . import english, german
from .choices import chance, pick
from .clauses import event, main_clause, subordinate_clause
from .frames import DATIVE, PREPOSITIONAL, TRANSITIVE
from .nominals import NOUNS_OF_KIND, PLURAL, SINGULAR, is_person, relative, subject
from .phrases import DEFINITE, Clause, NounPhrase, Phrase, relative_pronoun
from .simple_sentences import BE, describing_clause, that_is
from .verbs import VERBS

CLAUSE_TENSES = ("present", "habitual", "past")

# Verbs with a person, and verbs with a thing, as the object that a relative clause can identify.
MEETING_FRAMES = [
    frame
    for frame in TRANSITIVE
    if frame.verb in (VERBS["kennen"], VERBS["sehen"], VERBS["besuchen"], VERBS["treffen"])
]
THING_FRAMES = [
    frame
    for frame in TRANSITIVE
    if set(frame.objects).isdisjoint(("person", "child", "drink", "city", "bread"))
    and frame.verb is not VERBS["haben"]
]


def subject_relative(rng: Random) -> Phrase:
    """A sentence like "Der Mann, der in Berlin wohnt, ist mein Lehrer"."""
    while True:
        antecedent = known_person(rng)
        clause = event(rng, relative_pronoun(antecedent), CLAUSE_TENSES, negation=0)
        relative_clause = subordinate_clause(clause, "", "")
        if antecedent.noun.german not in relative_clause.german:  # not "der Mann, der einen Mann sieht"
            return about(rng, antecedent, relative_clause)


def object_relative(rng: Random) -> Phrase:
    """A sentence like "Das Buch, das Anna liest, ist gut", "Ich kenne die Frau, der du geholfen hast"."""
    antecedent, relative_clause = pick(rng, (accusative_relative, dative_relative, prepositional_relative))(rng)
    return about(rng, antecedent, relative_clause)


def accusative_relative(rng: Random) -> tuple[NounPhrase, Phrase]:
    """A phrase like "das Buch, das Anna liest"."""
    clause = event(rng, subject(rng), CLAUSE_TENSES, negation=0, frames=[(1, THING_FRAMES)])
    antecedent = NounPhrase(clause.direct.noun, DEFINITE, clause.direct.number)
    pronoun = relative_pronoun(antecedent)
    opener = Phrase(german.nominal(pronoun, "accusative"), english.nominal(pronoun, "object"))
    return antecedent, subordinate_clause(replace(clause, direct=None), *opener)


def dative_relative(rng: Random) -> tuple[NounPhrase, Phrase]:
    """A phrase like "die Frau, der ich geholfen habe"."""
    clause = event(rng, subject(rng), CLAUSE_TENSES, negation=0, frames=[(1, DATIVE)])
    antecedent = known_person(rng, clause)
    pronoun = relative_pronoun(antecedent)
    opener = Phrase(german.nominal(pronoun, "dative"), english.nominal(pronoun, "object"))
    return antecedent, subordinate_clause(replace(clause, indirect=None), *opener)


def prepositional_relative(rng: Random) -> tuple[NounPhrase, Phrase]:
    """A phrase like "die Stadt, in der Anna wohnt", "der Junge, mit dem Peter spricht"."""
    frame = pick(rng, [frame for frame in PREPOSITIONAL if frame.goals != ("city",)])
    clause = event(rng, subject(rng), CLAUSE_TENSES, negation=0, frames=[(1, [frame])])
    kind = pick(rng, [kind for kind in frame.goals if kind != "city"])
    if kind == "person":
        antecedent = known_person(rng, clause)
    else:
        antecedent = NounPhrase(pick(rng, NOUNS_OF_KIND[kind]), DEFINITE)
    pronoun, preposition = relative_pronoun(antecedent), frame.prepositions[0]
    german_opener = f"{preposition.german} {german.nominal(pronoun, preposition.case)}"
    english_opener = f"{preposition.english} {english.nominal(pronoun, 'object')}".strip()
    return antecedent, subordinate_clause(replace(clause, complement=None), german_opener, english_opener)


def known_person(rng: Random, clause: Clause | None = None) -> NounPhrase:
    """A definite person to whom a relative clause can be added, other than the subject of that clause."""
    nouns = [noun for kind in ("person", "child") for noun in NOUNS_OF_KIND[kind] if noun.pronoun]
    if clause and isinstance(clause.subject, NounPhrase):
        nouns = [noun for noun in nouns if noun is not clause.subject.noun]
    return NounPhrase(pick(rng, nouns), DEFINITE, PLURAL if chance(rng, 0.3) else SINGULAR)


def about(rng: Random, antecedent: NounPhrase, relative_clause: Phrase) -> Phrase:
    """A main clause around the antecedent of a relative clause."""
    main: list[Callable] = [as_subject, as_subject, pointed_at, as_object]
    return pick(rng, main)(rng, antecedent, relative_clause)


def as_subject(rng: Random, antecedent: NounPhrase, relative_clause: Phrase) -> Phrase:
    """A sentence like "Der Mann, der dort wohnt, ist müde"."""
    phrase = replace(antecedent, relative=relative_clause)
    if is_person(antecedent) and antecedent.number == SINGULAR and chance(rng, 0.3):
        known = relative(rng)
        while known.number == PLURAL or not can_be(antecedent, known):
            known = relative(rng)
        predicate = Phrase(german.nominal(known, "nominative"), english.nominal(known, "object"))
        return main_clause(rng, Clause(phrase, BE, complement=predicate), fields=())
    tense = "past" if chance(rng, 0.3) else "present"
    return main_clause(rng, describing_clause(rng, phrase, tense), fields=())


def can_be(antecedent: NounPhrase, known: NounPhrase) -> bool:
    """Whether a person can be this relative: a girl can be a sister, but not a brother or a mother."""
    grown_up = known.noun.german in ("Vater", "Mutter", "Großmutter")
    return known.noun.pronoun == antecedent.noun.pronoun and not (grown_up and antecedent.noun.kind == "child")


def pointed_at(rng: Random, antecedent: NounPhrase, relative_clause: Phrase) -> Phrase:
    """A sentence like "Das ist der Mann, der dort wohnt"."""
    return that_is(rng, replace(antecedent, relative=relative_clause))


def as_object(rng: Random, antecedent: NounPhrase, relative_clause: Phrase) -> Phrase:
    """A sentence like "Anna hat den Mann gesehen, der dort wohnt", with the relative clause after the verb."""
    frames = MEETING_FRAMES
    if not is_person(antecedent):
        frames = [frame for frame in THING_FRAMES if antecedent.noun.kind in frame.objects]
    if not frames:
        return pointed_at(rng, antecedent, relative_clause)
    who = subject(rng)
    nouns = (antecedent.noun.german, *relative_clause.german.split())
    while isinstance(who, NounPhrase) and any(word.startswith(who.noun.german) for word in nouns):
        who = subject(rng)
    clause = event(rng, who, ("present", "past", "future"), frames=[(1, frames)])
    clause = replace(clause, direct=antecedent, time=None, adverbial=None)
    if clause.tense == "present" and clause.verb.aspect == "punctual":
        clause = replace(clause, tense="past")
    main = main_clause(rng, clause, fields=())
    return Phrase(f"{main.german}, {relative_clause.german}", f"{main.english} {relative_clause.english}")
