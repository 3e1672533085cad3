"""German: the declension of noun phrases, the conjugation of verbs, and the word order of clauses."""

from __future__ import annotations

from dataclasses import replace

from .lexicon import Preposition
from .phrases import Clause, Determiner, Nominal, NounPhrase, Pronoun, join
from .verbs import IRREGULAR_PRESENT, MODALS, PRETERITE, VERBS, Verb

GLADLY, EXPERIENCE = MODALS["gern"], VERBS["gefallen"]

CASES = ("nominative", "accusative", "dative", "genitive")

# Endings by gender, or for the plural, in the order of CASES. The definite article has no stem before them.
DETERMINER_ENDINGS = {
    "definite": {
        "m": ("der", "den", "dem", "des"),
        "f": ("die", "die", "der", "der"),
        "n": ("das", "das", "dem", "des"),
        "plural": ("die", "die", "den", "der"),
    },
    "der-word": {
        "m": ("er", "en", "em", "es"),
        "f": ("e", "e", "er", "er"),
        "n": ("es", "es", "em", "es"),
        "plural": ("e", "e", "en", "er"),
    },
    "ein-word": {
        "m": ("", "en", "em", "es"),
        "f": ("e", "e", "er", "er"),
        "n": ("", "", "em", "es"),
        "plural": ("e", "e", "en", "er"),
    },
    "none": dict.fromkeys(("m", "f", "n", "plural"), ("", "", "", "")),
}
ADJECTIVE_ENDINGS = {
    "weak": {
        "m": ("e", "en", "en", "en"),
        "f": ("e", "e", "en", "en"),
        "n": ("e", "e", "en", "en"),
        "plural": ("en", "en", "en", "en"),
    },
    "mixed": {
        "m": ("er", "en", "en", "en"),
        "f": ("e", "e", "en", "en"),
        "n": ("es", "es", "en", "en"),
        "plural": ("en", "en", "en", "en"),
    },
    "strong": {
        "m": ("er", "en", "em", "en"),
        "f": ("e", "e", "er", "er"),
        "n": ("es", "es", "em", "en"),
        "plural": ("e", "e", "en", "er"),
    },
}

CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}


def gender(phrase: NounPhrase) -> str:
    """The column of the ending tables for a noun phrase: "m", "f", "n" or "plural"."""
    return "plural" if phrase.number == "plural" else phrase.noun.gender


def noun_form(phrase: NounPhrase, case: str) -> str:
    """The noun in the number of the phrase and a case: "Mannes", "Kindern", "Jungen"."""
    noun = phrase.noun
    if phrase.number == "plural":
        return noun.plural + ("n" if case == "dative" and noun.plural[-1] not in "ns" else "")
    if noun.weak and case != "nominative":
        return noun.plural
    if case == "genitive" and noun.gender != "f":
        return noun.german + ("es" if is_monosyllable(noun.german) else "s")
    return noun.german


def is_monosyllable(word: str) -> bool:
    """Whether a word has one vowel or two side by side: "Mann", "Freund"."""
    vowels = "".join(letter if letter in "aeiouäöü" else " " for letter in word.lower())
    return len(vowels.split()) == 1


def determiner_form(determiner: Determiner, column: str, case: str) -> str:
    """A determiner in a gender or the plural, and a case: "den", "meiner", "eurem"."""
    ending = DETERMINER_ENDINGS[determiner.endings][column][CASES.index(case)]
    stem = "eur" if determiner.german == "euer" and ending else determiner.german
    return stem + ending


def adjective_form(phrase: NounPhrase, case: str) -> str:
    """The adjective of a phrase with its ending, or "": "alten", "schönere"."""
    adjective = phrase.adjective
    if not adjective:
        return ""
    stem = {
        "positive": adjective.stem,
        "comparative": adjective.comparative,
        "superlative": adjective.superlative,
    }[phrase.degree]
    return stem + ADJECTIVE_ENDINGS[phrase.determiner.adjective_endings][gender(phrase)][CASES.index(case)]


def noun_phrase(phrase: NounPhrase, case: str) -> str:
    """A noun phrase in a case: "den alten Mann", "meine Schwester"."""
    genitive = noun_phrase(phrase.genitive, "genitive") if phrase.genitive else ""
    determiner = determiner_form(phrase.determiner, gender(phrase), case)
    text = join([determiner, adjective_form(phrase, case), noun_form(phrase, case), genitive])
    return f"{text}, {phrase.relative.german}," if phrase.relative else text


def nominal(phrase: Nominal, case: str) -> str:
    """A noun phrase or a pronoun in a case."""
    return getattr(phrase.german, case) if isinstance(phrase, Pronoun) else noun_phrase(phrase, case)


def prepositional_phrase(preposition: Preposition, phrase: Nominal) -> str:
    """A preposition with its noun phrase, contracted with the article: "im Garten", "zur Schule"."""
    text = f"{preposition.german} {nominal(phrase, preposition.case)}"
    if isinstance(phrase, NounPhrase) and phrase.determiner.endings == "definite":
        for apart, together in CONTRACTIONS.items():
            if text.startswith(apart + " "):
                return together + text.removeprefix(apart)
    return text


def present(verb: Verb) -> tuple[str, ...]:
    """The present tense without prefix: ich, du, er, wir, ihr, sie."""
    if verb.infinitive in IRREGULAR_PRESENT:
        return IRREGULAR_PRESENT[verb.infinitive]
    stem = verb.infinitive.removesuffix("n").removesuffix("e")
    du_stem = verb.third_person.removesuffix("t")
    du = du_stem + ("t" if du_stem[-1] in "sßz" else "st")
    ihr = stem + ("et" if stem[-1] in "dt" else "t")
    return (stem + "e", du, verb.third_person, verb.infinitive, ihr, verb.infinitive)


def preterite(first_person: str) -> tuple[str, ...]:
    """The preterite from its "ich" form: ich, du, er, wir, ihr, sie."""
    plural = first_person + ("n" if first_person.endswith("e") else "en")
    return (first_person, first_person + "st", first_person, plural, first_person + "t", plural)


def person_index(subject: Nominal) -> int:
    """The place of the subject's person and number among the six forms of a tense."""
    pronoun = subject.pronoun.german
    return pronoun.person - 1 + (3 if pronoun.number == "plural" else 0)


def verb_forms(clause: Clause) -> tuple[str, str]:
    """The finite verb, and the prefix, participle or infinitive that closes the main clause ("" if none)."""
    verb, modal, index = clause.verb, clause.modal, person_index(clause.subject)
    if modal and modal is not GLADLY:
        finite = preterite(modal.past) if clause.tense == "past" else modal.present
        return finite[index], verb.full_infinitive
    if clause.tense == "future":
        return IRREGULAR_PRESENT["werden"][index], verb.full_infinitive
    if clause.tense == "past":
        if verb.infinitive in PRETERITE:
            return preterite(PRETERITE[verb.infinitive])[index], ""
        return present(VERBS[verb.auxiliary])[index], verb.participle
    return present(verb)[index], verb.prefix


def middle_field(clause: Clause, subject: str = "") -> list[str]:
    """The subject and everything else between the finite verb and the end of a clause."""
    pronouns, definite, indefinite = [], [], []
    reflexive = clause.subject.pronoun.german.reflexive if clause.verb.reflexive else ""
    for nominal_, case in ((clause.direct, "accusative"), (clause.indirect, "dative")):
        if isinstance(nominal_, Pronoun):
            pronouns.append(nominal(nominal_, case))
    for nominal_, case in ((clause.indirect, "dative"), (clause.direct, "accusative")):
        if isinstance(nominal_, NounPhrase):
            group = definite if nominal_.determiner.reference == "definite" else indefinite
            group.append(nominal(nominal_, case))
    time = clause.time.german if clause.time else ""
    if clause.verb is EXPERIENCE:  # the dative comes before the subject: "weil mir das Haus gefällt"
        start = [*pronouns, *definite, subject, time]
    elif isinstance(clause.subject, NounPhrase):  # "weil sich Anna beeilt"
        start = [reflexive, subject, *pronouns, time, *definite]
    else:
        start = [subject, reflexive, *pronouns, time, *definite]
    adverbial = clause.adverbial.german if clause.adverbial else ""
    negation = "nicht" if clause.negated else ""
    complement = clause.complement.german if clause.complement else ""
    if clause.modal is GLADLY:
        return [*start, negation, "gern", adverbial, *indefinite, complement]
    return [*start, adverbial, *indefinite, negation, complement]


def verb_first(clause: Clause, subject: bool = True) -> str:
    """A clause that opens with its finite verb, as yes/no questions do: "ruft Anna heute ihre Mutter an"."""
    finite, closing = verb_forms(clause)
    return join([finite, *middle_field(clause, nominal(clause.subject, "nominative") if subject else ""), closing])


def verb_second(clause: Clause, front: str = "subject") -> str:
    """A main clause; `front` names the field of the clause which stands before the finite verb."""
    if front == "subject":
        return join([nominal(clause.subject, "nominative"), verb_first(clause, subject=False)])
    return join([constituent(clause, front), verb_first(replace(clause, **{front: None}))])


def constituent(clause: Clause, field: str) -> str:
    """The words of one field of a clause."""
    value = getattr(clause, field)
    if field in ("direct", "indirect"):
        return nominal(value, "accusative" if field == "direct" else "dative")
    return value.german


def verb_final(clause: Clause, opener: str = "") -> str:
    """A subordinate clause; the opener is a conjunction or question word, or "" if the subject opens it."""
    finite, closing = verb_forms(clause)
    if closing and closing == clause.verb.prefix:
        finite, closing = closing + finite, ""
    return join([opener, *middle_field(clause, nominal(clause.subject, "nominative")), closing, finite])


def infinitive(clause: Clause, opener: str = "") -> str:
    """An infinitive clause with "zu"; its unspoken subject determines a reflexive pronoun."""
    return join([opener, *middle_field(clause), clause.verb.zu_infinitive])
