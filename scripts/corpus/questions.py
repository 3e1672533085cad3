"""Questions with and without a question word; English needs "do" where there is no other auxiliary."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import english, german
from .choices import chance, pick
from .clauses import event
from .frames import (
    DATIVE,
    DITRANSITIVE,
    INTRANSITIVE,
    MOVEMENT,
    PLACEMENT,
    POSITION,
    PREPOSITIONAL,
    TRANSITIVE,
)
from .measures import SOLD_KINDS
from .nominals import NOUNS_OF_KIND, PLURAL, SINGULAR, person, thing
from .phrases import DU, HOW_MANY, IHR, WER, WHICH, Clause, Nominal, NounPhrase, Phrase
from .simple_sentences import (
    belonging_clause,
    described,
    describing_clause,
    liking_clause,
    particular_person,
)
from .verbs import VERBS

# "Worauf" asks about a thing that goes with "auf".
QUESTION_ADVERBS = {"auf": "worauf", "an": "woran", "von": "wovon", "über": "worüber", "für": "wofür"}

# The frames that each question word can ask about.
PLACE_FRAMES = [
    *(frame for frame in (*INTRANSITIVE, *TRANSITIVE) if frame.places and frame.verb.aspect != "stative"),
    *(frame for frame in PREPOSITIONAL if frame.verb is VERBS["wohnen"]),
    *POSITION,
]
DIRECTION_FRAMES = [*MOVEMENT, *PLACEMENT]
THING_FRAMES = [
    frame
    for frame in TRANSITIVE
    if set(frame.objects).isdisjoint(("person", "child")) and frame.verb is not VERBS["haben"]
]
COUNT_FRAMES = [
    frame for frame in THING_FRAMES if all(noun.plural for kind in frame.objects for noun in NOUNS_OF_KIND[kind])
]
WO_FRAMES = [
    frame
    for frame in PREPOSITIONAL
    if frame.prepositions[0].german in QUESTION_ADVERBS and set(frame.goals) != {"person"}
]
PERSON_FRAMES = [frame for frame in PREPOSITIONAL if "person" in frame.goals]
DATED_FRAMES = [
    (1, [*INTRANSITIVE, *DATIVE, *DITRANSITIVE, *MOVEMENT]),
    (2, [frame for frame in TRANSITIVE if frame.verb.aspect != "stative"]),
]

# Adverbials of habit do not go well with most question words.
TENSES = ("present", "past", "future", "modal")


def someone(rng: Random) -> Nominal:
    """The subject of a question, often the person spoken to."""
    if chance(rng, 0.4):
        return DU if chance(rng, 0.65) else IHR
    return person(rng, reference="definite")


def asked(clause: Clause, german_word: str, english_word: str) -> Phrase:
    """A question that opens with a question word; the constituent that it asks about is not in the clause."""
    return Phrase(f"{german_word} {german.verb_first(clause)}", english.question(clause, english_word))


def yes_no_question(rng: Random) -> Phrase:
    """A sentence like "Ruft Anna heute ihre Mutter an?"."""
    kind = rng.random()
    if kind < 0.12:
        clause = describing_clause(rng, described(rng), "past" if chance(rng, 0.3) else "present")
    elif kind < 0.22:
        clause = replace(liking_clause(rng, particular_person(rng)), negated=False)
    elif kind < 0.28:
        clause = replace(belonging_clause(rng), negated=False)
    else:
        clause = event(rng, someone(rng), negation=0)
    return Phrase(german.verb_first(clause), english.question(clause))


def who_question(rng: Random) -> Phrase:
    """A sentence like "Wer hat die Tür zugemacht?"."""
    clause = event(rng, WER, negation=0)
    return Phrase(german.verb_second(clause), english.statement(clause))


def whom_question(rng: Random) -> Phrase:
    """A sentence like "Wen hat Peter eingeladen?" and "Wem hilfst du?"."""
    case = pick(rng, ("accusative", "dative", "preposition"))
    if case == "accusative":
        frames = [frame for frame in TRANSITIVE if frame.objects == ("person",)]
        clause = event(rng, someone(rng), TENSES, 0, [(1, frames)])
        return asked(replace(clause, direct=None), "wen", "who")
    if case == "dative":
        clause = event(rng, someone(rng), TENSES, 0, [(1, DATIVE), (1, DITRANSITIVE)])
        recipient = Phrase("", "to") if clause.direct else None
        return asked(replace(clause, indirect=None, complement=recipient), "wem", "who")
    frame = pick(rng, PERSON_FRAMES)
    preposition = frame.prepositions[0]
    clause = event(rng, someone(rng), TENSES, 0, [(1, [frame])])
    clause = replace(clause, complement=Phrase("", preposition.english))
    return asked(clause, f"{preposition.german} {'wen' if preposition.case == 'accusative' else 'wem'}", "who")


def what_question(rng: Random) -> Phrase:
    """A sentence like "Was hast du gestern gekauft?" and "Worauf freut sich Anna?"."""
    if chance(rng, 0.6):
        clause = event(rng, someone(rng), TENSES, 0, [(1, THING_FRAMES)])
        return asked(replace(clause, direct=None), "was", "what")
    frame = pick(rng, WO_FRAMES)
    preposition = frame.prepositions[0]
    clause = event(rng, someone(rng), TENSES, 0, [(1, [frame])])
    clause = replace(clause, complement=Phrase("", preposition.english))
    return asked(clause, QUESTION_ADVERBS[preposition.german], "what")


def where_question(rng: Random) -> Phrase:
    """A sentence like "Wo wohnt dein Bruder?", "Wohin fährst du morgen?", "Woher kommt Maria?"."""
    who = someone(rng)
    kind = rng.random()
    if kind < 0.45:
        clause = event(rng, who, TENSES, 0, [(1, PLACE_FRAMES)])
        return asked(replace(clause, complement=None, adverbial=None), "wo", "where")
    if kind < 0.9:
        clause = event(rng, who, TENSES, 0, [(1, DIRECTION_FRAMES)])
        return asked(replace(clause, complement=None), "wohin", "where")
    return asked(Clause(who, VERBS["kommen"], complement=Phrase("", "from")), "woher", "where")


def when_or_why_question(rng: Random) -> Phrase:
    """A sentence like "Wann stehst du auf?" and "Warum hilft Peter seiner Mutter nicht?"."""
    if chance(rng, 0.5):
        clause = event(rng, someone(rng), ("past", "future", "modal"), 0, DATED_FRAMES)
        return asked(replace(clause, time=None), "wann", "when")
    clause = event(rng, someone(rng), negation=0.3)
    return asked(clause, "warum", "why")


def which_question(rng: Random) -> Phrase:
    """A sentence like "Welches Buch liest du?" and "Wie viele Äpfel hat Anna gegessen?"."""
    frame = pick(rng, COUNT_FRAMES)
    clause = event(rng, someone(rng), TENSES, 0, [(1, [frame])])
    noun = thing(rng, (pick(rng, frame.objects),)).noun
    if chance(rng, 0.5):
        wanted = NounPhrase(noun, HOW_MANY, PLURAL)
    else:
        wanted = NounPhrase(noun, WHICH, PLURAL if chance(rng, 0.3) else SINGULAR)
    words = Phrase(german.nominal(wanted, "accusative"), english.nominal(wanted, "object"))
    return asked(replace(clause, direct=None), words.german, words.english)


def price_question(rng: Random) -> Phrase:
    """A sentence like "Wie viel kosten die roten Schuhe?"."""
    what = thing(rng, (pick(rng, SOLD_KINDS),), reference="definite")
    tense = "past" if chance(rng, 0.3) else "present"
    return asked(Clause(what, VERBS["kosten"], tense), "wie viel", "how much")


def ownership_question(rng: Random) -> Phrase:
    """A sentence like "Wem gehört der schwarze Hund?"."""
    clause = replace(belonging_clause(rng), indirect=None, negated=False)
    return asked(clause, "wem", "who")
