"""Sentences of two main clauses, joined by "und" or "aber".

A pronoun in the second clause stands for the subject or the object of the first.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import english, german
from .choices import chance, pick
from .clauses import ADVERBIALS, event, main_clause
from .frames import ACTIVITIES
from .lexicon import ADJECTIVES, read_table
from .nominals import can_own, person, protagonist
from .phrases import (
    Clause,
    Phrase,
)
from .simple_sentences import (
    adjectives_for,
    described,
    described_as,
)
from .verbs import VERBS

# Qualities of a thing or a person, and others that one would not expect along with them.
CONTRASTS = [
    (first, second)
    for first, seconds in read_table("""
        alt          schön gut schnell interessant
        klein        schön teuer klug schwer schnell
        groß         leer billig
        teuer        gut schön schlecht
        billig       gut schön
        neu          schlecht
        gut          teuer
        schön        teuer
        kurz         gut interessant
        lang         gut interessant
        interessant  lang
        dunkel       schön
        kalt         gut
        jung         klug
        müde         glücklich freundlich
        krank        glücklich freundlich schnell
        hungrig      freundlich
    """)
    for second in seconds.split()
]


def contrast(rng: Random) -> Phrase:
    """A sentence like "Anna liest ein Buch, aber ihr Bruder schläft", "Peter schläft und Maria liest"."""
    tense = pick(rng, ("present", "past"))
    conjunction = pick(rng, (Phrase(", aber", ", but"), Phrase(" und", " and")))
    frames = ACTIVITIES["leisure"] + ACTIVITIES["routine"]
    while True:
        first, second = (event(rng, tenses=(tense,), negation=0, frames=frames) for _ in range(2))
        if first.subject != second.subject:
            break
    first = main_clause(rng, replace(first, adverbial=None), ADVERBIALS)
    second = main_clause(rng, replace(second, time=None, adverbial=None), fields=())
    return Phrase(
        f"{first.german}{conjunction.german} {second.german}",
        f"{first.english}{conjunction.english} {second.english}",
    )


def qualification(rng: Random) -> Phrase:
    """A sentence like "Der Tisch ist alt, aber er ist schön"."""
    while True:
        what = described(rng)
        known = [adjective.german for adjective in adjectives_for(what)]
        pairs = [pair for pair in CONTRASTS if pair[0] in known and pair[1] in known]
        if pairs and can_own(what):
            break
    first, second = (ADJECTIVES[german] for german in pick(rng, pairs))
    tense = "past" if chance(rng, 0.25) else "present"
    return but(rng, described_as(what, first, tense), described_as(what.pronoun, second, tense))


def disappointment(rng: Random) -> Phrase:
    """A sentence like "Anna hat einen Hut gekauft, aber er gefällt ihr nicht": "er" cannot be Anna."""
    while True:
        who = protagonist(rng)
        main = replace(event(rng, who, ("past",), 0, ACTIVITIES["choice"]), adverbial=None)
        thing = replace(main.direct, genitive=None)
        if thing.pronoun.german is not who.pronoun.german and thing.noun.kind not in (
            "food",
            "drink",
            "bread",
        ):
            break
    opinion = Clause(thing.pronoun, VERBS["gefallen"], indirect=who.pronoun, negated=True)
    return but(rng, replace(main, direct=thing), opinion)


def lost_and_found(rng: Random) -> Phrase:
    """A sentence like "Peter hat seinen Schlüssel verloren, aber Anna hat ihn gefunden"."""
    loss = event(rng, person(rng), ("past",), 0, ACTIVITIES["mishap"])
    loss = replace(loss, adverbial=None, direct=replace(loss.direct, genitive=None))
    finder = person(rng, loss.subject, "definite")
    return but(rng, loss, Clause(finder, VERBS["finden"], "past", direct=loss.direct.pronoun))


def but(rng: Random, first: Clause, second: Clause) -> Phrase:
    """Two main clauses with "aber"."""
    statement = main_clause(rng, first, ADVERBIALS)
    return Phrase(
        f"{statement.german}, aber {german.verb_second(second)}",
        f"{statement.english}, but {english.statement(second)}",
    )
