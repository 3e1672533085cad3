"""English: noun phrases, verb groups with do-support, and the word order of clauses."""

from __future__ import annotations

from .german import EXPERIENCE
from .lexicon import Preposition
from .phrases import Clause, Nominal, NounPhrase, Pronoun, is_negative, join
from .verbs import ENGLISH_VERBS


def noun_phrase(phrase: NounPhrase) -> str:
    """A noun phrase: "an old man", "the teacher's book"."""
    noun, determiner = phrase.noun, phrase.determiner
    plural = phrase.number == "plural"
    article = determiner.english_plural if plural or not noun.plural else determiner.english
    if phrase.genitive:
        owner = noun_phrase(phrase.genitive)
        article = owner + ("'" if phrase.genitive.number == "plural" and owner.endswith("s") else "'s")
    text = join([degree(phrase), noun.english_plural if plural else noun.english])
    if article == "a" and text[0] in "aeiou":
        article = "an"
    return join([article, text, phrase.relative.english if phrase.relative else ""])


def degree(phrase: NounPhrase) -> str:
    """The adjective of a noun phrase in its degree, or ""."""
    if not phrase.adjective:
        return ""
    return {
        "positive": phrase.adjective.english,
        "comparative": phrase.adjective.english_comparative,
        "superlative": phrase.adjective.english_superlative,
    }[phrase.degree]


def nominal(phrase: Nominal, role: str) -> str:
    """A noun phrase or a pronoun as "subject" or as "object"."""
    return getattr(phrase.english, role) if isinstance(phrase, Pronoun) else noun_phrase(phrase)


def prepositional_phrase(preposition: Preposition, phrase: Nominal) -> str:
    """A preposition with its noun phrase."""
    return join([preposition.english, nominal(phrase, "object")])


def is_third_singular(subject: Nominal) -> bool:
    """Whether a verb takes its -s form with this subject."""
    pronoun = subject.pronoun.german
    return pronoun.person == 3 and pronoun.number == "singular"


def be(subject: Nominal, past: bool) -> str:
    """The form of "be" for a subject."""
    pronoun = subject.pronoun.german
    if is_third_singular(subject):
        return "was" if past else "is"
    if pronoun.person == 1 and pronoun.number == "singular":
        return "was" if past else "am"
    return "were" if past else "are"


def arguments(clause: Clause) -> tuple[Nominal, Nominal | None, Nominal | None]:
    """Subject, indirect and direct object; a dative without an accusative is the English direct object."""
    if clause.verb is EXPERIENCE:
        return clause.indirect, None, clause.subject
    if clause.indirect and not clause.direct:
        return clause.subject, None, clause.indirect
    return clause.subject, clause.indirect, clause.direct


def verb_group(clause: Clause, support: bool = False) -> tuple[str, str]:
    """The operator (the auxiliary that "not" follows and questions invert) and the verb words after it.

    The operator is "" in a positive statement without an auxiliary; `support` asks for "do" even there.
    """
    subject = arguments(clause)[0]
    past = clause.tense == "past"
    modal, verb = clause.modal, clause.verb.english
    head, rest = (modal.english, f"{modal.particle} {verb}".strip()) if modal else (verb, "")
    if clause.tense == "future":
        return "will", join([head, rest])
    if head == "be":
        return be(subject, past), rest
    if modal and head not in ENGLISH_VERBS:
        return modal.english_past if past else head, rest
    base, third_person, past_form, ing_form = ENGLISH_VERBS[head]
    if clause.tense == "duration":
        return "has" if is_third_singular(subject) else "have", join(["been", ing_form])
    if clause.tense == "present" and clause.verb.aspect in ("dynamic", "durative") and not modal:
        return be(subject, past=False), ing_form
    if support or is_negative(clause):
        operator = "did" if past else "does" if is_third_singular(subject) else "do"
        return operator, join([base, rest])
    return "", join([past_form if past else third_person if is_third_singular(subject) else base, rest])


def after_verb(clause: Clause) -> list[str]:
    """Objects, particle, complement and adverbials, in English order."""
    _, indirect, direct = arguments(clause)
    objects = [nominal(phrase, "object") for phrase in (indirect, direct) if phrase]
    if indirect and isinstance(direct, Pronoun):  # "gives it to the man", not "gives the man it"
        objects = [nominal(direct, "object"), "to", nominal(indirect, "object")]
    particle = clause.verb.particle
    if clause.verb.particle_after_pronoun and isinstance(direct, Pronoun):
        objects = [*objects, particle]
    else:
        objects = [particle, *objects]
    time = clause.time.english if clause.time and clause.time.position == "final" else ""
    return [
        *objects,
        clause.complement.english if clause.complement else "",
        clause.adverbial.english if clause.adverbial else "",
        time,
    ]


def predicate(clause: Clause, inverted_subject: str = "") -> list[str]:
    """The operator, the subject of a question, "not", adverbs like "often", the verb and what follows."""
    operator, verb = verb_group(clause, support=bool(inverted_subject))
    middle = clause.time.english if clause.time and clause.time.position == "middle" else ""
    words = [operator, inverted_subject, "not" if is_negative(clause) else "", middle, verb]
    return [*words, *after_verb(clause)]


def statement(clause: Clause, opener: str = "") -> str:
    """A clause with its subject before the verb."""
    subject = nominal(arguments(clause)[0], "subject")
    return join([opener, subject, *predicate(clause)]).replace("can not", "cannot")


def question(clause: Clause, opener: str = "") -> str:
    """A clause with its subject after the operator: "does Anna know Peter"."""
    return join([opener, *predicate(clause, nominal(arguments(clause)[0], "subject"))])


def infinitive(clause: Clause) -> str:
    """An infinitive clause with "to"."""
    return join(["to", clause.verb.english, *after_verb(clause)])
