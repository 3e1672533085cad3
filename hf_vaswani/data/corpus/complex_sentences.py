"""Sentences of two clauses: reasons, conditions, reports, purposes and contrasts.

A third-person pronoun in the second clause stands for the subject or the object of the first, and is only used
where gender and number, or the verb, leave one of them.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import english, german
from .choices import Weighted, chance, pick, pick_weighted
from .clauses import ADVERBIALS, event, main_clause, subordinate_clause
from .frames import DATIVE, DITRANSITIVE, INTRANSITIVE, MOVEMENT, PLACEMENT, TRANSITIVE, Frame
from .lexicon import ADJECTIVES, ADJECTIVES_OF_KIND, NOUNS, Adjective
from .nominals import (
    NOUNS_OF_KIND,
    SUBJECT_PRONOUNS,
    can_own,
    is_quantified,
    person,
    subject,
)
from .phrases import (
    BARE,
    DEFINITE,
    DU,
    ES,
    ICH,
    IHR,
    NO_OBJECT,
    WER,
    WIR,
    Clause,
    Nominal,
    NounPhrase,
    Phrase,
    possessive,
)
from .simple_sentences import (
    BE,
    adjectives_for,
    belonging_clause,
    described,
    describing_clause,
    liking_clause,
    particular_person,
)
from .verbs import MODALS, VERBS


def frames_of(*verbs: str) -> list[tuple[float, list[Frame]]]:
    """The frames of some verbs, as the function `event` takes them."""
    wanted = [VERBS[verb] for verb in verbs]
    frames = (*INTRANSITIVE, *TRANSITIVE, *DATIVE, *DITRANSITIVE, *MOVEMENT)
    return [(1, [frame for frame in frames if frame.verb is verb]) for verb in wanted]


# What one does as a duty, in the evening, with time to spare, out of the house, on a trip, on purpose; and what makes
# one tired or happy.
DUTIES = frames_of(
    "arbeiten",
    "ein|kaufen",
    "an|rufen",
    "ab|holen",
    "besuchen",
    "auf|räumen",
    "waschen",
    "helfen",
    "schreiben",
)
EVENING = frames_of("ein|schlafen", "arbeiten", "ein|kaufen", "fern|sehen", "tanzen")
ROUTINES = frames_of(
    "lesen", "trinken", "essen", "an|rufen", "auf|räumen", "waschen", "vor|lesen", "schreiben"
)
PASTIMES = frames_of(
    *(
        "lesen",
        "schreiben",
        "tanzen",
        "treffen",
        "besuchen",
        "ein|laden",
        "waschen",
        "auf|räumen",
        "ein|kaufen",
    ),
    *("helfen", "an|rufen", "zu|hören", "ab|holen", "arbeiten", "fahren"),
)
OUTINGS = [(1, [frame for frame in MOVEMENT if frame.goals != ("room",)])]
TRIPS = [(1, [frame for frame in MOVEMENT if set(frame.goals) & {"town", "city"}])]
ERRANDS = frames_of(
    "kaufen", "ein|kaufen", "besuchen", "treffen", "arbeiten", "helfen", "tanzen", "verkaufen"
)
ACTIONS = [
    *(frames_of("ein|kaufen", "sich aus|ruhen", "helfen", "danken", "antworten", "tanzen")),
    (5, [frame for frame in TRANSITIVE if frame.verb.aspect == "dynamic"]),
    (2, DITRANSITIVE),
    (1, PLACEMENT),
]
EFFORTS = frames_of("arbeiten", "tanzen", "auf|räumen", "waschen", "ein|kaufen", "laufen", "helfen")
SUCCESSES = frames_of("finden", "kaufen", "treffen", "verkaufen", "besuchen", "ein|laden")

PRESENT_MODALS = [(1, MODALS[modal]) for modal in ("können", "wollen", "möchten")]
CAN, MUST, WANT = ([(1, MODALS[modal])] for modal in ("können", "müssen", "wollen"))

# What one does with things because of what they are like.
PROPERTIES = {
    "kaufen": "schön billig gut neu frisch interessant groß schnell",
    "verkaufen": "alt klein schlecht groß schwer",
    "weg|werfen": "alt schlecht kalt",
    "lesen": "gut interessant schön kurz neu",
    "tragen": "warm schön neu",
    "suchen": "teuer neu schön",
}


# Qualities of which the second is not expected after the first.
CONTRASTS = [
    tuple(row.split())
    for row in (
        *(
            "alt schön",
            "alt gut",
            "alt schnell",
            "alt interessant",
            "klein schön",
            "klein teuer",
            "klein klug",
        ),
        *(
            "klein schwer",
            "teuer gut",
            "teuer schön",
            "teuer schlecht",
            "billig gut",
            "billig schön",
            "neu schlecht",
        ),
        *(
            "müde glücklich",
            "krank glücklich",
            "krank freundlich",
            "jung klug",
            "hungrig freundlich",
            "kurz gut",
        ),
        *(
            "lang interessant",
            "kurz interessant",
            "lang gut",
            "dunkel schön",
            "kalt gut",
            "groß leer",
            "groß billig",
        ),
        *(
            "müde freundlich",
            "krank schnell",
            "klein schnell",
            "gut teuer",
            "schön teuer",
            "interessant lang",
        ),
    )
]


def protagonist(rng: Random) -> Nominal:
    """A subject that a pronoun in the second clause can stand for."""
    if chance(rng, 0.25):
        return pick_weighted(rng, SUBJECT_PRONOUNS)
    while True:
        who = person(rng, reference="definite")
        if can_own(who):
            return who


def described_as(who: Nominal, adjective: Adjective, tense: str) -> Clause:
    """A clause with "sein" and this adjective."""
    return Clause(who, BE, tense, complement=Phrase(adjective.german, adjective.english))


def weather(rng: Random, tense: str, adjectives: tuple[str, ...]) -> Clause:
    """ "das Wetter ist schlecht"."""
    return described_as(NounPhrase(NOUNS["Wetter"], DEFINITE), ADJECTIVES[pick(rng, adjectives)], tense)


def hindrance(rng: Random, who: Nominal, tense: str, activity: Clause) -> Clause:
    """A reason not to do something: "er ist krank", "er hat keine Zeit", "er muss arbeiten"."""
    kind = rng.random()
    if kind < 0.45:
        return described_as(who, ADJECTIVES[pick(rng, ("müde", "krank"))], tense)
    if kind < 0.6:
        return Clause(who, VERBS["haben"], tense, direct=NounPhrase(NOUNS["Zeit"], NO_OBJECT))
    duty = event(
        rng, who, ("modal",), 0, [group for group in DUTIES if group[1][0].verb is not activity.verb], MUST
    )
    return replace(duty, tense=tense, time=None, adverbial=None)


def bad_weather(rng: Random, tense: str) -> Clause:
    """A reason not to go out: "es regnet", "das Wetter ist schlecht"."""
    if chance(rng, 0.5):
        return Clause(ES, VERBS["regnen"], tense)
    return weather(rng, tense, ("schlecht", "kalt"))


def joined(rng: Random, main: Clause, conjunction: Phrase, subordinate: Clause, first: bool) -> Phrase:
    """Main and subordinate clause, with the subordinate clause first if so asked."""
    clause = subordinate_clause(subordinate, *conjunction)
    if first:
        return Phrase(
            f"{clause.german}, {german.verb_first(main)}", f"{clause.english}, {english.statement(main)}"
        )
    statement = main_clause(rng, main, ADVERBIALS)
    return Phrase(f"{statement.german}, {clause.german}", f"{statement.english} {clause.english}")


def because(rng: Random, main: Clause, reason: Clause) -> Phrase:
    """A main clause and its reason, with "weil" (verb at the end) or "denn" (verb second)."""
    if main.time and main.time.german.startswith(("wegen", "trotz")):
        main = replace(main, time=None)
    if chance(rng, 0.7):
        return joined(rng, main, Phrase("weil", "because"), reason, first=False)
    statement = main_clause(rng, main, ADVERBIALS)
    return Phrase(
        f"{statement.german}, denn {german.verb_second(reason)}",
        f"{statement.english} {english.statement(reason, 'because')}",
    )


def excuse(rng: Random) -> Phrase:
    """ "Anna kann heute nicht tanzen, weil sie krank ist." """
    who = protagonist(rng)
    if chance(rng, 0.2):
        main = event(rng, who, ("modal",), 1, OUTINGS, CAN)
        return because(rng, main, bad_weather(rng, main.tense))
    main = event(rng, who, ("modal",), 1, PASTIMES, CAN)
    return because(rng, main, hindrance(rng, who.pronoun, main.tense, main))


NEEDED_KINDS = ("tool", "text", "clothing", "container", "vehicle", "furniture", "bread", "drink", "fridge")


def need(rng: Random) -> Phrase:
    """ "Peter sucht den Schlüssel, weil er ihn braucht." """
    who = protagonist(rng)
    while True:
        main = event(rng, who, ("present", "past"), 0, frames_of("suchen", "kaufen"))
        if main.direct.noun.kind in NEEDED_KINDS:
            break
    main, wanted = replace(main, adverbial=None), replace(main.direct, genitive=None)
    reason = Clause(who.pronoun, VERBS["brauchen"], main.tense, direct=wanted.pronoun)
    return because(rng, replace(main, direct=wanted), reason)


def property_reason(rng: Random) -> Phrase:
    """ "Maria hat den Mantel gekauft, weil er schön ist": "er" cannot be Maria."""
    while True:
        who, verb = protagonist(rng), pick(rng, list(PROPERTIES))
        main = event(rng, who, ("present", "past"), 0, frames_of(verb))
        thing = replace(main.direct, genitive=None, adjective=None, degree="positive")
        adjectives = [a for a in ADJECTIVES_OF_KIND[thing.noun.kind] if a.german in PROPERTIES[verb].split()]
        if adjectives and thing.pronoun.german is not who.pronoun.german:
            break
    reason = described_as(thing.pronoun, pick(rng, adjectives), main.tense)
    return because(rng, replace(main, direct=thing, adverbial=None), reason)


def errand(rng: Random) -> Phrase:
    """ "Wir fahren nach Berlin, weil wir unsere Schwester besuchen wollen." """
    who = protagonist(rng)
    main = event(rng, who, ("present", "past"), 0, TRIPS)
    wish = event(rng, who.pronoun, ("modal",), 0, ERRANDS, WANT)
    return because(rng, main, replace(wish, tense=main.tense, time=None, adverbial=None))


def feeling(rng: Random) -> Phrase:
    """ "Paul ist müde, weil er gestern gearbeitet hat", "Anna ist glücklich, weil ihr Bruder sie besucht"."""
    who = protagonist(rng)
    kind = rng.random()
    if kind < 0.4:
        main = described_as(who, ADJECTIVES["müde"], "present")
        return because(rng, main, event(rng, who.pronoun, ("past",), 0, EFFORTS))
    main = described_as(who, ADJECTIVES["glücklich"], "present")
    if kind < 0.7:
        return because(rng, main, event(rng, who.pronoun, ("past",), 0, SUCCESSES))
    visitor = NounPhrase(pick(rng, NOUNS_OF_KIND["kin"]), possessive(who.pronoun))
    verb = VERBS[pick(rng, ("besuchen", "an|rufen", "ein|laden", "ab|holen", "helfen"))]
    case = "indirect" if verb is VERBS["helfen"] else "direct"
    tense = pick(rng, ("present", "past", "future"))
    return because(rng, main, replace(Clause(visitor, verb, tense), **{case: who.pronoun}))


def concession(rng: Random) -> Phrase:
    """ "Obwohl Peter krank ist, arbeitet er im Garten." """
    who, first, tense = protagonist(rng), chance(rng, 0.4), pick(rng, ("present", "past"))
    if chance(rng, 0.25):
        main, obstacle = event(rng, who, (tense,), 0, OUTINGS), bad_weather(rng, tense)
    else:
        main = event(rng, who.pronoun if first else who, (tense,), 0, PASTIMES)
        obstacle = hindrance(rng, who if first else who.pronoun, tense, main)
    return joined(rng, main, Phrase("obwohl", "although"), obstacle, first)


def condition(rng: Random) -> Phrase:
    """ "Wenn das Wetter schön ist, wird Maria in den Park gehen." """
    who, first = protagonist(rng), chance(rng, 0.6)
    named, other = (who, who.pronoun) if first else (who.pronoun, who)
    kind = rng.random()
    if kind < 0.2:
        main, if_clause = staying_at_home(rng, who), bad_weather(rng, "habitual")
    elif kind < 0.4:
        main = event(rng, other, ("modal",), 1, PASTIMES, CAN)
        if_clause = hindrance(rng, named, "habitual", main)
    elif kind < 0.6:
        main = event(rng, who, ("habitual", "future", "modal"), 0, OUTINGS, PRESENT_MODALS)
        if_clause = weather(rng, "habitual", ("schön", "gut", "warm"))
    else:
        main = event(rng, other, ("habitual", "future", "modal"), 0, PASTIMES, PRESENT_MODALS)
        if_clause = Clause(named, VERBS["haben"], "habitual", direct=NounPhrase(NOUNS["Zeit"], BARE))
    main = replace(main, time=None, tense="present" if main.modal else main.tense)
    return joined(rng, main, Phrase("wenn", "if"), if_clause, first)


def staying_at_home(rng: Random, who: Nominal) -> Clause:
    """ "Anna bleibt zu Hause"."""
    home = Phrase("zu Hause", "at home")
    return Clause(who, VERBS["bleiben"], pick(rng, ("habitual", "future")), complement=home)


def consequence(rng: Random) -> Phrase:
    """ "Paul hat keine Zeit, deshalb kann er den Brief nicht schreiben." """
    who, tense = protagonist(rng), pick(rng, ("present", "past"))
    effect = event(rng, who.pronoun, ("modal",), 1, PASTIMES, CAN)
    effect = replace(effect, tense=tense, time=None, adverbial=None)
    statement = main_clause(rng, hindrance(rng, who, tense, effect), fields=())
    return Phrase(
        f"{statement.german}, deshalb {german.verb_first(effect)}",
        f"{statement.english}, so {english.statement(effect)}",
    )


def routine(rng: Random) -> Phrase:
    """ "Bevor Anna einschläft, liest sie ein Buch." """
    who, first = protagonist(rng), chance(rng, 0.5)
    later = event(rng, who if first else who.pronoun, ("habitual",), 0, EVENING)
    earlier = event(rng, who.pronoun if first else who, ("habitual",), 0, ROUTINES)
    earlier, later = replace(earlier, time=None), replace(later, time=None, adverbial=None)
    return joined(rng, earlier, Phrase("bevor", "before"), later, first)


def report(rng: Random) -> Phrase:
    """ "Ich glaube, dass der Arzt morgen kommt." """
    speaker = pick(rng, (ICH, WIR)) if chance(rng, 0.3) else protagonist(rng)
    matrix = Clause(speaker, VERBS[pick(rng, ("sagen", "glauben", "hoffen", "wissen"))])
    if matrix.verb is VERBS["glauben"]:
        matrix = replace(matrix, negated=chance(rng, 0.25))
    if chance(rng, 0.25):
        reported = event(rng, speaker.pronoun, ("past", "future", "modal"))
    else:
        reported = content(rng)
    return joined(rng, matrix, Phrase("dass", "that"), reported, first=False)


def content(rng: Random, negation: float = 0.12) -> Clause:
    """What someone says or asks."""
    kind = rng.random()
    if kind < 0.15:
        return describing_clause(rng, described(rng), "past" if chance(rng, 0.3) else "present")
    if kind < 0.25:
        clause = liking_clause(rng, particular_person(rng))
    elif kind < 0.3:
        clause = belonging_clause(rng)
    else:
        return event(rng, negation=negation)
    return replace(clause, negated=clause.negated and negation > 0)


def indirect_question(rng: Random) -> Phrase:
    """ "Ich weiß nicht, ob Peter die Tür zugemacht hat", "Weißt du, warum Anna lacht?" """
    who, know = protagonist(rng), VERBS["wissen"]
    words = pick_weighted(
        rng, [(5, ("ob", "whether")), (2, ("warum", "why")), (1.5, ("wann", "when")), (1.5, ("wer", "who"))]
    )
    if words[0] == "wer":
        asked, words = event(rng, WER, negation=0), ("", "")
    elif words[0] == "wann":
        asked = replace(event(rng, tenses=("past", "future"), negation=0, frames=ACTIONS), time=None)
    else:
        asked = content(rng, negation=0.3 if words[0] == "warum" else 0)
    clause = subordinate_clause(asked, *words)
    kind = rng.random()
    if kind < 0.45:
        matrix = Clause(who, know, negated=True)
    elif kind < 0.75:
        matrix = Clause(who, know, modal=MODALS["möchten"])
    else:
        you = Clause(pick(rng, (DU, DU, IHR)), know)
        return Phrase(
            f"{german.verb_first(you)}, {clause.german}?", f"{english.question(you)} {clause.english}?"
        )
    return Phrase(
        f"{german.verb_second(matrix)}, {clause.german}", f"{english.statement(matrix)} {clause.english}"
    )


def purpose(rng: Random) -> Phrase:
    """ "Maria fährt in die Stadt, um einzukaufen." """
    main = event(rng, tenses=("present", "past", "future", "modal"), negation=0, frames=TRIPS)
    return with_infinitive(rng, main, ERRANDS, "um")


def attempt(rng: Random) -> Phrase:
    """ "Peter versucht, den Arzt anzurufen", "Wir haben keine Zeit, einzukaufen"."""
    who, tense = subject(rng), pick(rng, ("present", "past"))
    verb = VERBS[pick(rng, ("versuchen", "vergessen", "hoffen", "haben"))]
    if verb is VERBS["haben"]:
        determiner = BARE if is_quantified(who) or chance(rng, 0.4) else NO_OBJECT
        return with_infinitive(
            rng, Clause(who, verb, tense, direct=NounPhrase(NOUNS["Zeit"], determiner)), ACTIONS
        )
    if verb is VERBS["vergessen"]:
        tense = "past"
    return with_infinitive(rng, Clause(who, verb, tense), ACTIONS)


def with_infinitive(rng: Random, main: Clause, actions: Weighted[list[Frame]], opener: str = "") -> Phrase:
    """A clause with an infinitive clause of the same subject behind it."""
    action = event(rng, main.subject, ("past",), 0, actions)  # the tense goes unused
    action = replace(action, time=None, adverbial=None)
    statement = main_clause(rng, main, ADVERBIALS)
    return Phrase(
        f"{statement.german}, {german.infinitive(action, opener)}",
        f"{statement.english} {english.infinitive(action)}",
    )


def contrast(rng: Random) -> Phrase:
    """ "Anna liest ein Buch, aber ihr Bruder schläft", "Peter kocht und Maria liest"."""
    tense = pick(rng, ("present", "past"))
    conjunction = pick(rng, (Phrase(", aber", ", but"), Phrase(" und", " and")))
    first, second = event(rng, tenses=(tense,), negation=0), event(rng, tenses=(tense,), negation=0)
    while german.nominal(first.subject, "nominative") == german.nominal(second.subject, "nominative"):
        second = event(rng, tenses=(tense,), negation=0)
    first = main_clause(rng, replace(first, adverbial=None), ADVERBIALS)
    second = main_clause(rng, replace(second, time=None, adverbial=None), fields=())
    return Phrase(
        f"{first.german}{conjunction.german} {second.german}",
        f"{first.english}{conjunction.english} {second.english}",
    )


def qualification(rng: Random) -> Phrase:
    """ "Der Tisch ist alt, aber er ist schön." """
    while True:
        what = described(rng)
        known = [adjective.german for adjective in adjectives_for(what)]
        pairs = [pair for pair in CONTRASTS if pair[0] in known and pair[1] in known]
        if pairs and can_own(what):
            break
    first, second = (ADJECTIVES[german] for german in pick(rng, pairs))
    tense = "past" if chance(rng, 0.25) else "present"
    return but(rng, described_as(what, first, tense), described_as(what.pronoun, second, tense))


def but(rng: Random, first: Clause, second: Clause) -> Phrase:
    """Two main clauses with "aber"."""
    statement = main_clause(rng, first, ADVERBIALS)
    return Phrase(
        f"{statement.german}, aber {german.verb_second(second)}",
        f"{statement.english}, but {english.statement(second)}",
    )


def disappointment(rng: Random) -> Phrase:
    """ "Anna hat einen Hut gekauft, aber er gefällt ihr nicht": "er" cannot be Anna."""
    while True:
        who = protagonist(rng)
        main = replace(event(rng, who, ("past",), 0, frames_of("kaufen", "lesen")), adverbial=None)
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
    """ "Peter hat seinen Schlüssel verloren, aber Anna hat ihn gefunden." """
    loss = event(rng, person(rng), ("past",), 0, frames_of("verlieren", "vergessen"))
    loss = replace(loss, adverbial=None, direct=replace(loss.direct, genitive=None))
    finder = person(rng, loss.subject, "definite")
    return but(rng, loss, Clause(finder, VERBS["finden"], "past", direct=loss.direct.pronoun))
