"""The meaning of a sentence as plain data, from which `german.py` and `english.py` make the words.

Pronouns, determiners, noun phrases and clauses. Whatever one language marks and the other does not (the owner
of "ihr", the form of an English present tense) is settled here and not when the words are made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from .lexicon import PEOPLE_KINDS, Adjective, Adverbial, Noun, read_table
from .numbers import english_number, german_number
from .verbs import Modal, Verb


class Phrase(NamedTuple):
    """Words in both languages that are not inflected any further."""

    german: str
    english: str


def join(words: list[str]) -> str:
    """The words with one space between them, empty ones left out."""
    return " ".join(word for word in words if word)


@dataclass(frozen=True)
class GermanPronoun:
    """The forms of a German pronoun; `possessive` is the stem of its possessive determiner."""

    nominative: str
    accusative: str
    dative: str
    reflexive: str
    possessive: str
    person: int
    number: str  # "singular" or "plural"


@dataclass(frozen=True)
class EnglishPronoun:
    """The forms of an English pronoun."""

    subject: str
    object: str
    possessive: str


@dataclass(frozen=True)
class Pronoun:
    """A pronoun; German chooses it by grammatical gender and English by sex, so the two are kept apart."""

    german: GermanPronoun
    english: EnglishPronoun

    @property
    def pronoun(self) -> Pronoun:
        """The pronoun itself, so that agreement works in the same way for pronouns and noun phrases."""
        return self


GERMAN_PRONOUNS = {
    row[0]: GermanPronoun(*row[1:6], person=int(row[6]), number=row[7])
    for row in read_table("""
        ich         ich  mich  mir    mich  mein   1  singular
        du          du   dich  dir    dich  dein   2  singular
        er          er   ihn   ihm    sich  sein   3  singular
        sie         sie  sie   ihr    sich  ihr    3  singular
        es          es   es    ihm    sich  sein   3  singular
        wir         wir  uns   uns    uns   unser  1  plural
        ihr         ihr  euch  euch   euch  euer   2  plural
        sie_plural  sie  sie   ihnen  sich  ihr    3  plural
        wer         wer  wen   wem    sich  sein   3  singular
    """)
}
ENGLISH_PRONOUNS = {
    row[0]: EnglishPronoun(*row)
    for row in read_table("""
        I     me    my
        you   you   your
        he    him   his
        she   her   her
        it    it    its
        we    us    our
        they  them  their
        who   who   their
    """)
}


def make_pronoun(german: str, english: str) -> Pronoun:
    """The pronoun with these keys of GERMAN_PRONOUNS and ENGLISH_PRONOUNS."""
    return Pronoun(GERMAN_PRONOUNS[german], ENGLISH_PRONOUNS[english])


ICH, DU = make_pronoun("ich", "I"), make_pronoun("du", "you")
ER, SIE, ES = make_pronoun("er", "he"), make_pronoun("sie", "she"), make_pronoun("es", "it")
WIR, IHR = make_pronoun("wir", "we"), make_pronoun("ihr", "you")
SIE_PLURAL, WER = make_pronoun("sie_plural", "they"), make_pronoun("wer", "who")
PERSONAL_PRONOUNS = (ICH, DU, ER, SIE, ES, WIR, IHR, SIE_PLURAL)


@dataclass(frozen=True)
class Determiner:
    """A determiner: its German stem, the endings that it takes and the adjective endings after it."""

    german: str
    endings: str  # a key of german.DETERMINER_ENDINGS
    adjective_endings: str  # "weak", "mixed" or "strong"
    english: str
    english_plural: str  # with plurals and mass nouns
    reference: str  # "definite", "indefinite" or "negative": negative objects make the English clause negative


NAME = Determiner("", "none", "strong", "", "", "definite")
BARE = Determiner("", "none", "strong", "", "", "indefinite")
DEFINITE = Determiner("", "definite", "weak", "the", "the", "definite")
INDEFINITE = Determiner("ein", "ein-word", "mixed", "a", "", "indefinite")
THIS = Determiner("dies", "der-word", "weak", "this", "these", "definite")
EVERY = Determiner("jed", "der-word", "weak", "every", "", "definite")
ALL = Determiner("all", "der-word", "weak", "", "all the", "definite")
WHICH = Determiner("welch", "der-word", "weak", "which", "which", "indefinite")
MANY = Determiner("viel", "der-word", "strong", "", "many", "indefinite")
HOW_MANY = Determiner("wie viel", "der-word", "strong", "", "how many", "indefinite")
NO_SUBJECT = Determiner("kein", "ein-word", "mixed", "no", "no", "indefinite")
NO_OBJECT = Determiner("kein", "ein-word", "mixed", "a", "any", "negative")


def count(number: int) -> Determiner:
    """A number word before a plural noun, 2 to 999."""
    words = english_number(number)
    return Determiner(german_number(number), "none", "strong", words, words, "indefinite")


def possessive(owner: Nominal) -> Determiner:
    """The possessive determiner for an owner: "mein", "sein", "ihr"; for a name its genitive, "Annas"."""
    if isinstance(owner, NounPhrase) and owner.noun.kind == "name":
        english = owner.noun.english + "'s"
        return Determiner(owner.noun.german + "s", "none", "strong", english, english, "definite")
    english = owner.pronoun.english.possessive
    return Determiner(owner.pronoun.german.possessive, "ein-word", "mixed", english, english, "definite")


@dataclass(frozen=True)
class NounPhrase:
    """A noun or name with the words around it; `degree` is the adjective's."""

    noun: Noun
    determiner: Determiner = BARE
    number: str = "singular"  # or "plural"
    adjective: Adjective | None = None
    degree: str = "positive"  # "positive", "comparative" or "superlative"
    genitive: NounPhrase | None = None  # an owner: "des Lehrers"
    relative: Phrase | None = None  # a relative clause

    @property
    def pronoun(self) -> Pronoun:
        """The pronoun that stands for this phrase, and that verbs and possessives agree with."""
        if self.number == "plural":
            return SIE_PLURAL
        german = {"m": "er", "f": "sie", "n": "es"}[self.noun.gender]
        return make_pronoun(german, self.noun.pronoun or "it")


Nominal = NounPhrase | Pronoun


@dataclass(frozen=True)
class Clause:
    """A clause without its word order."""

    subject: Nominal
    verb: Verb
    # "past" is the German perfect; "present", "habitual" and "duration" are all the German present tense, and
    # in English "is reading", "reads" and "has been reading".
    tense: str = "present"
    modal: Modal | None = None
    direct: Nominal | None = None  # accusative object
    indirect: Nominal | None = None  # dative object
    complement: Phrase | None = None  # a prepositional object, a direction or a predicate
    adverbial: Phrase | None = None  # of place, company or manner
    time: Adverbial | None = None
    negated: bool = False


def is_negative(clause: Clause) -> bool:
    """Whether the English clause has "not": for a German "nicht" or an object with "kein"."""
    return clause.negated or any(
        isinstance(nominal, NounPhrase) and nominal.determiner.reference == "negative"
        for nominal in (clause.direct, clause.indirect)
    )


# Nominative, accusative and dative by gender, or for the plural.
RELATIVE_PRONOUNS = {
    "m": ("der", "den", "dem"),
    "f": ("die", "die", "der"),
    "n": ("das", "das", "dem"),
    "plural": ("die", "die", "denen"),
}


def relative_pronoun(antecedent: NounPhrase) -> Pronoun:
    """The relative pronoun for a noun phrase: "who" for people, "which" for everything else."""
    plural = antecedent.number == "plural"
    forms = RELATIVE_PRONOUNS["plural" if plural else antecedent.noun.gender]
    agreeing = antecedent.pronoun
    german = replace(agreeing.german, nominative=forms[0], accusative=forms[1], dative=forms[2])
    words = ("who", "whom") if antecedent.noun.kind in PEOPLE_KINDS else ("which", "which")
    return Pronoun(german, replace(agreeing.english, subject=words[0], object=words[1]))
