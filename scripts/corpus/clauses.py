"""Random clauses: a verb with complements that go with it, a tense, and adverbials that go with the tense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from . import english, german
from .choices import Weighted, chance, pick, pick_number, pick_weighted
from .frames import (
    CONSUMING_VERBS,
    DATIVE,
    DITRANSITIVE,
    INTRANSITIVE,
    MOVEMENT,
    PLACEMENT,
    PLEASANT_VERBS,
    POSITION,
    PREPOSITIONAL,
    SOCIAL_VERBS,
    TRANSITIVE,
    Frame,
)
from .lexicon import (
    CIRCUMSTANCES,
    COMPANY_PREPOSITIONS,
    DIRECTION_PREPOSITIONS,
    PLACE_PREPOSITIONS,
    TIME_ADVERBIALS,
    UNITS,
    VEHICLES,
    Adverbial,
    Preposition,
)
from .nominals import is_person, is_quantified, object_pronoun, person, place, subject, thing
from .numbers import MINUTES, english_clock, english_number, german_clock, german_number
from .phrases import BARE, NO_SUBJECT, Clause, Nominal, NounPhrase, Phrase, is_negative
from .verbs import MODALS, VERBS, Modal

FRAMES = [
    (10, INTRANSITIVE),
    (42, TRANSITIVE),
    (7, DATIVE),
    (10, DITRANSITIVE),
    (13, PREPOSITIONAL),
    (10, MOVEMENT),
    (5, POSITION),
    (5, PLACEMENT),
]

# The tenses of a main clause; "modal" stands for a modal verb in its present or past.
TENSES = ("present", "habitual", "past", "future", "modal")
TENSE_WEIGHTS = {
    "dynamic": {"present": 30, "habitual": 14, "past": 34, "future": 10, "modal": 26},
    "punctual": {"present": 0, "habitual": 15, "past": 50, "future": 15, "modal": 20},
    "accidental": {"present": 0, "habitual": 25, "past": 75, "future": 0, "modal": 0},
    "durative": {"present": 40, "habitual": 10, "past": 40, "future": 10, "modal": 0},
    "stative": {"present": 75, "habitual": 0, "past": 25, "future": 0, "modal": 0},
}
MODAL_WEIGHTS = [
    (5, MODALS["können"]),
    (5, MODALS["müssen"]),
    (5, MODALS["wollen"]),
    (3, MODALS["dürfen"]),
    (3, MODALS["sollen"]),
    (3, MODALS["möchten"]),
    (7, MODALS["gern"]),
]


# The fields of a clause that may stand before the German verb instead of the subject.
FRONTS = ("time", "adverbial", "complement", "direct", "indirect")
ADVERBIALS = ("time", "adverbial")


def event(
    rng: Random,
    who: Nominal | None = None,
    tenses: Sequence[str] = TENSES,
    negation: float = 0.12,
    frames: Weighted[list[Frame]] = FRAMES,
    modals: Weighted[Modal] = MODAL_WEIGHTS,
) -> Clause:
    """A random clause in one of these tenses; `who`, if given, is its subject, a person."""
    frame = choose_frame(rng, frames, tenses, only_people=who is not None)
    who = who or subject(rng, frame.subjects)
    tense, modal = choose_tense(rng, frame, tenses if is_person(who) else ("present", "past"), modals)
    if tense == "habitual" and isinstance(who, NounPhrase) and who.determiner is NO_SUBJECT:
        tense = "past"  # "kein Kind schläft nie" is more than one negation
    clause = Clause(who, frame.verb, tense, modal)
    can_be_negative = tense != "habitual" and not is_quantified(who) and frame.verb.aspect != "accidental"
    negative = can_be_negative and chance(rng, negation)
    clause = with_complements(rng, clause, frame, negative)
    clause = replace(clause, time=choose_time(rng, frame, clause))
    if not negative and chance(rng, 0.25):
        clause = replace(clause, adverbial=choose_adverbial(rng, frame, who))
    return clause


def choose_frame(rng: Random, frames: Weighted[list[Frame]], tenses: Sequence[str], only_people: bool) -> Frame:
    """A frame that has one of the tenses and, on request, takes people as its subject."""
    while True:
        frame = pick(rng, pick_weighted(rng, frames))
        weights = TENSE_WEIGHTS[frame.verb.aspect]
        if any(weights[tense] for tense in tenses) and ("person" in frame.subjects or not only_people):
            return frame


def choose_tense(
    rng: Random, frame: Frame, tenses: Sequence[str], modals: Weighted[Modal]
) -> tuple[str, Modal | None]:
    """A tense and the modal verb, if there is one."""
    weights = TENSE_WEIGHTS[frame.verb.aspect]
    if not any(weights[tense] for tense in tenses):
        return "past", None
    tense = pick_weighted(rng, [(weights[tense], tense) for tense in tenses])
    if tense != "modal":
        return tense, None
    modal = pick_weighted(rng, modals)
    if modal is MODALS["gern"] and frame.verb not in PLEASANT_VERBS:
        modal = MODALS["müssen"]
    return ("past" if modal.past and chance(rng, 0.25) else "present"), modal


def with_complements(rng: Random, clause: Clause, frame: Frame, negative: bool) -> Clause:
    """The clause with the objects that its frame asks for, negated by "nicht" or by "kein"."""
    who, direct, indirect, complement = clause.subject, None, None, None
    reference = "any"
    if clause.modal is MODALS["gern"] or frame.verb is VERBS["mögen"]:
        reference = "generic"
    elif frame.verb in (VERBS["tragen"], VERBS["an|ziehen"]):
        reference = "single"
    elif clause.tense == "habitual" and frame.verb in CONSUMING_VERBS:
        reference = "indefinite"
    elif frame.verb is VERBS["kaufen"]:
        reference = "new"
    elif frame.verb is VERBS["kennen"]:
        reference = "definite"
    if negative:
        reference = "negative" if reference != "generic" and chance(rng, 0.5) else "definite"
    if frame.objects:
        direct = choose_object(rng, pick(rng, frame.objects), who, reference, "accusative")
    if frame.recipients:
        indirect = choose_object(rng, pick(rng, frame.recipients), who, "definite", "dative")
    if frame.prepositions:
        complement = choose_complement(rng, frame, who if is_person(who) else None)
    clause = replace(clause, direct=direct, indirect=indirect, complement=complement)
    return replace(clause, negated=negative and not is_negative_object(direct))


def is_negative_object(nominal: Nominal | None) -> bool:
    """Whether an object has "kein"."""
    return isinstance(nominal, NounPhrase) and nominal.determiner.reference == "negative"


def choose_object(rng: Random, kind: str, who: Nominal, reference: str, case: str) -> Nominal:
    """An object of this kind for a subject."""
    if kind == "person":
        if chance(rng, 0.3 if case == "dative" else 0.18):
            return object_pronoun(rng, who, case)
        return person(rng, who, "any" if reference == "any" else "definite")
    return thing(rng, (kind,), who, reference)


def choose_complement(rng: Random, frame: Frame, who: Nominal | None) -> Phrase:
    """A prepositional object, direction or place."""
    preposition, kind = pick(rng, frame.prepositions), pick(rng, frame.goals)
    if preposition in (*PLACE_PREPOSITIONS.values(), *DIRECTION_PREPOSITIONS.values()):
        return prepositional_phrase(preposition, place(rng, (kind,), who))
    return prepositional_phrase(
        preposition,
        choose_object(rng, kind, who, "definite" if kind == "person" else "any", preposition.case),
    )


def prepositional_phrase(preposition: Preposition, nominal: Nominal) -> Phrase:
    """A preposition with its noun phrase in both languages."""
    return Phrase(
        german.prepositional_phrase(preposition, nominal), english.prepositional_phrase(preposition, nominal)
    )


def choose_adverbial(rng: Random, frame: Frame, who: Nominal) -> Phrase | None:
    """An adverbial of place, company or transport which goes with the verb, or None."""
    if frame.verb is VERBS["fahren"] and chance(rng, 0.7):
        return Phrase(*pick(rng, list(VEHICLES.items())))
    if frame.verb in SOCIAL_VERBS and chance(rng, 0.5):
        return prepositional_phrase(pick(rng, COMPANY_PREPOSITIONS), person(rng, who, "definite"))
    if frame.places:
        return place_adverbial(rng, frame.places, who)
    return None


def place_adverbial(rng: Random, kinds: Sequence[str], who: Nominal) -> Phrase:
    """Where something happens: "in der Küche", "am Bahnhof"."""
    where = place(rng, kinds, who)
    return prepositional_phrase(PLACE_PREPOSITIONS["an" if where.noun.kind == "stop" else "in"], where)


def choose_time(rng: Random, frame: Frame, clause: Clause) -> Adverbial | None:
    """An adverbial of time for a clause, or None; habitual clauses always have one."""
    if clause.tense == "habitual":
        return adverb_of_time(rng, "habitual", frame.span)
    if frame.verb.aspect == "stative" or clause.modal is MODALS["gern"]:
        return None
    if not is_person(clause.subject) or not chance(rng, 0.5):
        return None
    if is_negative(clause) and clause.tense == "present" and not clause.modal:
        return None
    use = "future" if clause.modal and clause.tense == "present" else clause.tense
    if use == "present":
        return adverb_of_time(rng, use, frame.span)
    if frame.verb.aspect == "durative" or is_negative(clause):
        return adverb_of_time(rng, use, frame.span)
    is_bare = isinstance(clause.direct, NounPhrase) and clause.direct.determiner is BARE
    clock_weight = 0 if is_bare else 20  # "um zehn vor drei Äpfel essen" would read as three apples
    circumstance_weight = 8 if frame.verb.aspect == "dynamic" else 0
    kinds = [
        (60, adverb_of_time),
        (clock_weight, clock_time),
        (12, time_distance),
        (circumstance_weight, circumstance),
    ]
    return pick_weighted(rng, kinds)(rng, use, frame.span)


def adverb_of_time(rng: Random, use: str, span: str) -> Adverbial:
    """A phrase like "gestern", "jeden Tag"."""
    return pick(rng, [a for a in TIME_ADVERBIALS if a.use == use and span in ("week", a.span)])


def clock_time(rng: Random, use: str, span: str) -> Adverbial:
    """A phrase like "um halb drei", "morgen um zehn nach acht"."""
    clock = clock_phrase(rng)
    if chance(rng, 0.5):
        return Adverbial("um " + clock.german, "at " + clock.english, use)
    day, english_day = ("gestern", "yesterday") if use == "past" else ("morgen", "tomorrow")
    return Adverbial(f"{day} um {clock.german}", f"{english_day} at {clock.english}", use)


def clock_phrase(rng: Random) -> Phrase:
    """A clock time."""
    hour, minute = pick_number(rng, 1, 12), pick(rng, MINUTES + (0, 30, 30))
    return Phrase(german_clock(hour, minute), english_clock(hour, minute))


def time_distance(rng: Random, use: str, span: str) -> Adverbial:
    """A phrase like "vor drei Tagen", "in zwei Wochen"."""
    length = length_of_time(rng, ("Tag", "Woche") if span == "week" else ("Stunde", "Minute", "Tag"))
    if use == "past":
        return Adverbial("vor " + length.german, length.english + " ago", use)
    return Adverbial("in " + length.german, "in " + length.english, use)


def length_of_time(rng: Random, units: Sequence[str]) -> Phrase:
    """A number of hours, days or the like, in the dative: "drei Tagen"."""
    _, plural, _, english_plural = UNITS[pick(rng, units)]
    number = pick_number(rng, 2, 12)
    dative = plural if plural.endswith("n") else plural + "n"
    return Phrase(f"{german_number(number)} {dative}", f"{english_number(number)} {english_plural}")


def circumstance(rng: Random, use: str, span: str) -> Adverbial:
    """A phrase like "wegen des Regens", "nach dem Konzert"."""
    return Adverbial(*pick(rng, CIRCUMSTANCES), use)


def main_clause(rng: Random, clause: Clause, fields: Sequence[str] = FRONTS) -> Phrase:
    """A statement; with some probability, one of these fields of the clause stands first in German.

    English follows suit only for adverbials: its objects stay after the verb.
    """
    weights = [(weight, field) for weight, field in fronts(clause) if field in fields]
    front = pick_weighted(rng, [(1, "subject"), *weights])
    german_text = german.verb_second(clause, front)
    if front == "adverbial" or (front == "time" and clause.time.position == "final"):
        opener = getattr(clause, front).english
        return Phrase(german_text, english.statement(replace(clause, **{front: None}), opener))
    return Phrase(german_text, english.statement(clause))


def fronts(clause: Clause) -> list[tuple[float, str]]:
    """The fields of a clause that may open it instead of the subject, with their weights."""
    subject_is_clear = german.nominal(clause.subject, "nominative") != german.nominal(clause.subject, "accusative")
    weights = []
    if clause.time and clause.time.frontable:
        weights.append((0.8, "time"))
    if clause.adverbial and not clause.adverbial.german.startswith(("mit ", "ohne ")):
        weights.append((0.3, "adverbial"))
    if clause.complement and clause.verb not in (VERBS["sein"], VERBS["haben"], VERBS["kosten"]):
        weights.append((0.1, "complement"))
    for field, case in (("direct", "accusative"), ("indirect", "dative")):
        nominal = getattr(clause, field)
        if isinstance(nominal, NounPhrase) and nominal.determiner.reference == "definite":
            object_is_clear = german.nominal(nominal, case) != german.nominal(nominal, "nominative")
            if object_is_clear or (subject_is_clear and field == "direct"):
                weights.append((0.2, field))
    return weights


def subordinate_clause(clause: Clause, german_opener: str, english_opener: str) -> Phrase:
    """A clause with its verb at the end in German."""
    return Phrase(german.verb_final(clause, german_opener), english.statement(clause, english_opener))


def joined(rng: Random, main: Clause, conjunction: Phrase, subordinate: Clause, first: bool) -> Phrase:
    """A main and a subordinate clause, with the subordinate clause first on request."""
    clause = subordinate_clause(subordinate, *conjunction)
    if first:
        return Phrase(f"{clause.german}, {german.verb_first(main)}", f"{clause.english}, {english.statement(main)}")
    statement = main_clause(rng, main, ADVERBIALS)
    return Phrase(f"{statement.german}, {clause.german}", f"{statement.english} {clause.english}")
