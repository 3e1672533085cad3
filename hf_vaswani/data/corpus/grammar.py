"""The sentence types of the embedded corpus, and how one of them becomes a pair of sentences.

A sentence type draws the meaning of a sentence (`phrases.py`) and builds its words in both languages at once
with `german.py` and `english.py`. Conventions that make English a function of the German sentence:

- The German present tense is the English progressive ("is reading"); it is the simple present with adverbials of
  habit ("jeden Tag", "oft"), with clock times of a timetable, after "wenn" and "bevor", and with verbs of state; with
  "seit" it is "has been reading".
- The perfect and the preterite of "sein", "haben" and the modal verbs are both the English past.
- "sie" with a singular verb is "she", with a plural verb "they"; there is no polite "Sie".
- "sein" and "ihr" as possessives refer to the subject of their clause, or in a second clause to that of the first.
- A third-person pronoun without antecedent in the sentence stands for a person.
- "kein" is "not … a" or "not … any" with objects and "no" with subjects.
- A German object before the verb goes back behind the verb in English; an adverbial stays in front.
"""

from __future__ import annotations

import re
from random import Random

from . import complex_sentences, questions, relative_clauses, simple_sentences
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
    (2.5, simple_sentences.existence),
    (1.2, simple_sentences.price),
    (1.2, simple_sentences.age),
    (0.8, simple_sentences.length_in_pages),
    (0.8, simple_sentences.distance),
    (2, simple_sentences.timetable),
    (0.2, simple_sentences.clock),
    (2.5, simple_sentences.duration),
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
    (1.5, complex_sentences.excuse),
    (1.5, complex_sentences.need),
    (1.5, complex_sentences.property_reason),
    (1.2, complex_sentences.errand),
    (1.5, complex_sentences.feeling),
    (2, complex_sentences.concession),
    (3, complex_sentences.condition),
    (1.2, complex_sentences.consequence),
    (1.2, complex_sentences.routine),
    (3.5, complex_sentences.report),
    (3, complex_sentences.indirect_question),
    (2, complex_sentences.purpose),
    (2.5, complex_sentences.attempt),
    (2, complex_sentences.contrast),
    (1.5, complex_sentences.qualification),
    (1, complex_sentences.disappointment),
    (1, complex_sentences.lost_and_found),
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
