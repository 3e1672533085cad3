"""The sentence types of the built-in corpus, and how one of them becomes a pair of sentences.

A sentence type draws the meaning of a sentence (`phrases.py`) and builds its words in both languages at once
with `german.py` and `english.py`. These conventions make the English a function of the German sentence:

- The German present tense is the English progressive ("is reading"). It is the simple present for verbs of
  state, with adverbials of habit ("jeden Tag", "oft"), in timetables, and with a "wenn" or "bevor" clause;
  with "seit" it is "has been reading".
- The perfect is the English past, and so is the preterite, which only "sein", "haben", "kennen", "mögen" and
  the modal verbs have.
- "sie" with a singular verb is "she", with a plural verb "they"; there is no polite "Sie".
- A pronoun without antecedent in the sentence stands for a person; with one it follows the antecedent: "er"
  is "it" for a table, and "es" is "she" for a girl.
- The possessives "sein" and "ihr" refer to the subject of their clause; where they are part of the subject of
  a second clause, to the first clause's.
- "kein" is "no" with subjects, and "not … a" or "not … any" with objects.
- A German object before the verb goes back to its place after the verb in English; an adverbial stays in front.
"""

from __future__ import annotations

import re
from random import Random

from . import (
    adverbial_clauses,
    complement_clauses,
    coordination,
    measures,
    questions,
    relative_clauses,
    simple_sentences,
)
from .choices import pick_weighted

SENTENCE_TYPES = [
    (24, simple_sentences.statement),
    (2, simple_sentences.description),
    (3, simple_sentences.comparison),
    (1.5, simple_sentences.identification),
    (0.7, simple_sentences.superlative),
    (0.6, simple_sentences.profession),
    (3, simple_sentences.liking),
    (1.5, simple_sentences.belonging),
    (2.5, measures.existence),
    (1.2, measures.price),
    (1.2, measures.age),
    (0.8, measures.length_in_pages),
    (0.8, measures.distance),
    (2, measures.timetable),
    (0.2, measures.clock),
    (2.5, measures.duration),
    (5, questions.yes_no_question),
    (1, questions.who_question),
    (1.5, questions.whom_question),
    (2, questions.what_question),
    (2, questions.where_question),
    (1.5, questions.when_or_why_question),
    (1.5, questions.which_question),
    (0.4, questions.price_question),
    (0.4, questions.ownership_question),
    (4, relative_clauses.subject_relative),
    (5, relative_clauses.object_relative),
    (1.5, adverbial_clauses.excuse),
    (1.5, adverbial_clauses.need),
    (1.5, adverbial_clauses.property_reason),
    (1.2, adverbial_clauses.errand),
    (1.5, adverbial_clauses.feeling),
    (2, adverbial_clauses.concession),
    (3, adverbial_clauses.condition),
    (1.2, adverbial_clauses.consequence),
    (1.2, adverbial_clauses.routine),
    (3.5, complement_clauses.report),
    (3, complement_clauses.indirect_question),
    (2, complement_clauses.purpose),
    (2.5, complement_clauses.attempt),
    (2, coordination.contrast),
    (1.5, coordination.qualification),
    (1, coordination.disappointment),
    (1, coordination.lost_and_found),
]


def sentence_pair(rng: Random) -> tuple[str, str]:
    """A random German sentence and its English translation."""
    sentence_type = pick_weighted(rng, SENTENCE_TYPES)
    german, english = sentence_type(rng)
    is_question = sentence_type.__module__ == questions.__name__
    return finish(german, is_question), finish(english, is_question)


def finish(words: str, is_question: bool) -> str:
    """The words as a sentence: a capital first, a full stop or question mark last, no comma before it."""
    if not words.endswith("?"):
        words = words.rstrip(",") + ("?" if is_question else ".")
    return words[0].upper() + re.sub(r",+(?=[,?])", "", words[1:])
