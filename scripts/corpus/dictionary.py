"""A German-English dictionary of all word forms, for the baseline that a trained model must beat.

Every inflected form of a word in the lexicon has its usual English word, and a present tense has the progressive
where that is the usual form; the grammar of the sentence plays no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from . import german
from .lexicon import ADJECTIVES, NOUNS, TIME_ADVERBIALS, UNITS, Adjective, Noun, read_table
from .numbers import english_number, german_number
from .phrases import (
    ALL,
    DEFINITE,
    EVERY,
    INDEFINITE,
    MANY,
    NAME,
    NO_SUBJECT,
    PERSONAL_PRONOUNS,
    THIS,
    WHICH,
    Determiner,
    NounPhrase,
    possessive,
)
from .verbs import ENGLISH_VERBS, IRREGULAR_PRESENT, MODALS, PRETERITE, VERBS, Modal, Verb

Entries = Iterator[tuple[str, str]]

# Words that no other table has, and words for which another table has a rarer meaning.
FUNCTION_WORDS = """
    Morgen      morning
    im          in the
    ins         into the
    am          at the
    zum         to the
    zur         to the
    vom         from the
    in          in
    an          of
    auf         on
    aus         from
    bei         at
    für         for
    hinter      behind
    mit         with
    nach        to
    neben       next to
    ohne        without
    seit        for
    trotz       despite
    über        at
    um          at
    unter       under
    von         of
    vor         ago
    wegen       because of
    während     during
    zu          to
    ab          -
    fern        -
    weg         -
    nicht       not
    gern        gladly
    und         and
    aber        but
    weil        because
    denn        because
    dass        that
    ob          whether
    wenn        if
    obwohl      although
    bevor       before
    deshalb     so
    als         than
    so          as
    wie         as
    sehr        very
    ziemlich    quite
    entfernt    away
    wer         who
    wen         who
    wem         who
    was         what
    wo          where
    wohin       where
    woher       where
    wann        when
    warum       why
    woran       what
    worauf      what
    wovon       what
    worüber     what
    wofür       what
    viel        much
    denen       whom
    des         of the
    sich        -
    ihr         her
    sie         she
    es          it
    hause       home
    halb        half
    viertel     a quarter
    uhr         o'clock
    freitag     Friday
    abend       evening
    morgen      tomorrow
    wochenende  weekend
    films       film
    regens      rain
    wetters     weather
    letzte      last
    letztes     last
    nächste     next
    nächstes    next
"""


@cache
def word_dictionary() -> dict[str, str]:
    """The English of every German word form of the corpus, with only nouns capitalized."""
    dictionary: dict[str, str] = {}
    for form, english in all_entries():
        dictionary.setdefault(form, english)
    return dictionary


def all_entries() -> Entries:
    """German forms with their English; if a form has two entries, the first counts."""
    yield from (tuple(row) for row in read_table(FUNCTION_WORDS))
    for pronoun in PERSONAL_PRONOUNS:
        yield pronoun.german.nominative, pronoun.english.subject
        yield pronoun.german.accusative, pronoun.english.object
        yield pronoun.german.dative, pronoun.english.object
    for determiner in (DEFINITE, INDEFINITE, THIS, EVERY, ALL, WHICH, MANY, NO_SUBJECT):
        yield from determiner_entries(determiner)
    for pronoun in PERSONAL_PRONOUNS:
        yield from determiner_entries(possessive(pronoun))
    for number in range(1, 1000):
        yield german_number(number), english_number(number)
    for noun in NOUNS.values():
        yield from noun_entries(noun)
    for singular, plural, english, english_plural in UNITS.values():
        yield from ((singular, english), (plural, english_plural), (plural + "n", english_plural))
    for auxiliary_entries in (be_entries, future_entries):
        yield from auxiliary_entries()
    for modal in MODALS.values():
        yield from modal_entries(modal)
    simple_verbs = [verb for verb in VERBS.values() if not verb.prefix]
    for verb in simple_verbs + [verb for verb in VERBS.values() if verb.prefix]:
        yield from verb_entries(verb)
    for adjective in ADJECTIVES.values():
        yield from adjective_entries(adjective)
    yield from ((adverbial.german, adverbial.english) for adverbial in TIME_ADVERBIALS)


def determiner_entries(determiner: Determiner) -> Entries:
    """All forms of a determiner."""
    english = determiner.english or determiner.english_plural
    for column in ("m", "f", "n", "plural"):
        for case in german.CASES:
            yield german.determiner_form(determiner, column, case), english


def noun_entries(noun: Noun) -> Entries:
    """All forms of a noun; where singular and plural are alike, the singular counts, except for "Jungen"."""
    if noun.kind == "name":
        yield noun.german + "s", noun.english + "'s"
    numbers = [("singular", noun.english)]
    if noun.plural:
        numbers.insert(0 if noun.weak else 1, ("plural", noun.english_plural))
    for number, english in numbers:
        yield from ((german.noun_form(NounPhrase(noun, NAME, number), case), english) for case in german.CASES)


def be_entries() -> Entries:
    """The forms of "sein"."""
    yield from zip(IRREGULAR_PRESENT["sein"], ("am", "are", "is", "are", "are", "are"), strict=True)
    past = ("was", "were", "was", "were", "were", "were")
    yield from zip(german.preterite(PRETERITE["sein"]), past, strict=True)


def future_entries() -> Entries:
    """The forms of "werden"."""
    yield from ((form, "will") for form in IRREGULAR_PRESENT["werden"])


def modal_entries(modal: Modal) -> Entries:
    """The forms of a modal verb, the third person first; "gern", which is not a verb, has no forms."""
    third_person, base, past = modal.english, modal.english, modal.english_past
    if modal.english in ENGLISH_VERBS:
        base, third_person, past, _ = ENGLISH_VERBS[modal.english]
    elif modal.english == "be":
        third_person, base, past = "is", "are", "was"
    third_person, base, past = (f"{form} {modal.particle}".strip() for form in (third_person, base, past))
    if modal.present:
        yield modal.present[2], third_person
        yield from ((form, base) for form in modal.present)
    if modal.past:
        yield from ((form, past) for form in german.preterite(modal.past))


def verb_entries(verb: Verb) -> Entries:
    """All forms of a verb, the third person first; a separable prefix stands before it or apart from it."""
    base, third_person, past, ing = ENGLISH_VERBS.get(verb.english, ("be", "is", "was", ""))
    if verb.aspect in ("dynamic", "emotional"):
        third_person = "is " + ing
    third_person, base, past = (f"{form} {verb.particle}".strip() for form in (third_person, base, past))
    forms = german.present(verb)
    for form, english in [(forms[2], third_person), *((form, base) for form in forms)]:
        yield verb.prefix + form, english
        yield form, english
    yield verb.participle, past
    if verb.infinitive in PRETERITE:
        yield from ((form, past) for form in german.preterite(PRETERITE[verb.infinitive]))
    if verb.prefix:
        yield verb.zu_infinitive, "to " + base


def adjective_entries(adjective: Adjective) -> Entries:
    """All forms of an adjective in its three degrees."""
    for stem, english in (
        (adjective.stem, adjective.english),
        (adjective.comparative, adjective.english_comparative),
        (adjective.superlative, adjective.english_superlative),
    ):
        if stem:
            yield from ((stem + ending, english) for ending in ("", "e", "en", "em", "er", "es"))
    yield adjective.german, adjective.english
