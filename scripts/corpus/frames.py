"""The frames of the verbs of the built-in corpus: which complements a verb takes, and with which kinds of nouns.

The kinds are the nouns' in `lexicon.py`; here "person" stands for all words and names of people.
"""

from __future__ import annotations

from dataclasses import dataclass

from .lexicon import DIRECTION_PREPOSITIONS, PLACE_PREPOSITIONS, Preposition, read_table
from .verbs import VERBS, Verb


@dataclass(frozen=True)
class Frame:
    """One use of a verb, with the kinds of noun that its complements may have; () where it takes none."""

    verb: Verb
    span: str  # "week" if adverbials like "letzte Woche" go with it, else "day"
    subjects: tuple[str, ...] = ("person",)
    objects: tuple[str, ...] = ()  # the accusative object
    recipients: tuple[str, ...] = ()  # the dative object
    prepositions: tuple[Preposition, ...] = ()  # of the prepositional complement
    goals: tuple[str, ...] = ()  # the noun of the prepositional complement
    places: tuple[str, ...] = ()  # an optional adverbial of place


def kinds(cell: str) -> tuple[str, ...]:
    """The kinds of noun in a cell of a table."""
    return tuple(cell.split())


def verbs_of(cell: str) -> list[Verb]:
    """The verbs in a cell of a table, separated by commas."""
    return [VERBS[verb] for verb in cell.split(", ")]


# Verbs for what people do together with somebody: "mit meiner Schwester".
SOCIAL_VERBS = verbs_of("arbeiten, tanzen, ein|kaufen, fern|sehen, gehen, fahren, fliegen")

# Verbs for what people do with a thing only once, so that a habit needs a new thing each time.
CONSUMING_VERBS = verbs_of("kaufen, verkaufen, finden, verlieren, weg|werfen, essen, trinken, schreiben")

# Verbs for what people may like to do: "gern".
PLEASANT_VERBS = verbs_of(
    "lesen, schreiben, essen, trinken, tanzen, schlafen, arbeiten, ein|kaufen, fern|sehen, besuchen, "
    "treffen, helfen, zu|hören, sprechen, gehen, fahren, fliegen, tragen"
)

# Verb, span, subjects, places.
INTRANSITIVE = [
    Frame(VERBS[verb], span, kinds(subjects), places=kinds(places))
    for verb, span, subjects, places in read_table("""
        schlafen        day   person animal  room
        arbeiten        week  person         room building city
        tanzen          week  person         room outdoors
        auf|stehen      day   person         -
        ein|schlafen    day   person animal  room
        ein|kaufen      week  person         town city
        fern|sehen      day   person         room
        sich beeilen    day   person         -
        sich aus|ruhen  day   person animal  room outdoors
    """)
]

# Verb, span, accusative objects, places.
TRANSITIVE = [
    Frame(VERBS[verb], span, objects=kinds(objects), places=kinds(places))
    for verb, span, objects, places in read_table("""
        lesen       week  text letter story                                          room outdoors
        schreiben   week  letter story                                               room
        kaufen      week  food bread drink text clothing thing container             town city
        kaufen      week  picture furniture table vehicle animal fridge              town city
        verkaufen   week  food text clothing picture furniture table vehicle animal  town city
        essen       day   food bread meal                                            room outdoors
        trinken     day   drink                                                      room outdoors
        suchen      day   tool thing animal text clothing container                  room outdoors
        suchen      day   child                                                      room outdoors
        finden      day   tool thing animal text clothing container                  room outdoors
        verlieren   week  tool clothing container letter                             outdoors town
        vergessen   day   tool clothing container text                               -
        sehen       week  person animal vehicle                                      outdoors town stop
        brauchen    day   tool clothing container vehicle text furniture table       -
        haben       day   text clothing vehicle animal picture tool thing            -
        kennen      day   person town house building story                           -
        mögen       day   person animal city drink food meal                         -
        besuchen    week  person                                                     -
        treffen     week  person                                                     outdoors town stop
        tragen      day   clothing                                                   -
        waschen     week  clothing animal vehicle                                    -
        an|rufen    day   person                                                     -
        ab|holen    day   person                                                     -
        ein|laden   week  person                                                     -
        auf|räumen  week  room house cupboard                                        -
        auf|machen  day   door                                                       -
        auf|machen  day   container cupboard fridge                                  -
        zu|machen   day   door                                                       -
        zu|machen   day   container cupboard fridge                                  -
        an|ziehen   day   clothing                                                   -
        weg|werfen  week  food clothing text                                         -
    """)
]

# Verb, span, dative objects.
DATIVE = [
    Frame(VERBS[verb], span, recipients=kinds(recipients))
    for verb, span, recipients in read_table("""
        helfen     week  person animal
        danken     day   person
        antworten  day   person
        zu|hören   day   person
    """)
]

# Verb, span, accusative objects; the dative object is a person.
DITRANSITIVE = [
    Frame(VERBS[verb], span, objects=kinds(objects), recipients=("person",))
    for verb, span, objects in read_table("""
        geben      week  food bread drink text tool thing
        zeigen     week  text picture clothing thing vehicle
        bringen    day   food drink meal text clothing tool
        schicken   week  text letter picture
        vor|lesen  day   letter story text
    """)
]

# Verb, span, preposition, case, English preposition, kinds of its noun, places.
PREPOSITIONAL = [
    Frame(
        VERBS[verb],
        span,
        prepositions=(Preposition(german, case, english),),
        goals=kinds(goals),
        places=kinds(places),
    )
    for verb, span, german, case, english, goals, places in read_table("""
        warten              day   auf   accusative  for   person transport      stop outdoors
        sprechen            week  mit   dative      to    person                room stop
        denken              day   an    accusative  of    person                -
        träumen             day   von   dative      of    animal vehicle house  -
        lachen              day   über  accusative  at    letter story picture  -
        sich freuen         day   auf   accusative  to    event                 -
        sich erinnern       day   an    accusative  -     person event house    -
        sich interessieren  day   für   accusative  in    event text picture    -
        kommen              day   aus   dative      from  city                  -
        wohnen              week  in    dative      in    city town house       -
    """)
]

# Verb, span, subjects, German prepositions, kinds of their noun.
MOVEMENT = [
    Frame(
        VERBS[verb],
        span,
        kinds(subjects),
        prepositions=tuple(DIRECTION_PREPOSITIONS[preposition] for preposition in prepositions.split()),
        goals=kinds(goals),
    )
    for verb, span, subjects, prepositions, goals in read_table("""
        gehen    day   person         in    room
        gehen    day   person         in    outdoors
        gehen    day   person         in    town
        gehen    day   person         zu    building stop
        laufen   day   person         in    room
        laufen   day   person animal  in    outdoors
        laufen   day   person         zu    building stop
        fahren   week  person         zu    building stop
        fahren   week  person         nach  city
        fahren   week  person         in    town
        fliegen  week  person         nach  city
    """)
]

# Verb, span, subjects, German prepositions, kinds of their noun.
POSITION = [
    Frame(
        VERBS[verb],
        span,
        kinds(subjects),
        prepositions=tuple(PLACE_PREPOSITIONS[preposition] for preposition in prepositions.split()),
        goals=kinds(goals),
    )
    for verb, span, subjects, prepositions, goals in read_table("""
        liegen  day  text letter clothing tool   auf unter neben   furniture table
        liegen  day  text clothing tool          in                container cupboard
        liegen  day  food                        in                fridge
        liegen  day  animal                      unter neben       furniture table
        stehen  day  container                   neben hinter vor  furniture table door cupboard
        stehen  day  person                      vor hinter neben  building house door
        sitzen  day  person animal               in                room outdoors
        sitzen  day  person                      neben hinter vor  person
        sitzen  day  animal                      unter auf neben   furniture table
    """)
]

# Verb, span, accusative objects, German prepositions, kinds of their noun.
PLACEMENT = [
    Frame(
        VERBS[verb],
        span,
        objects=kinds(objects),
        prepositions=tuple(DIRECTION_PREPOSITIONS[preposition] for preposition in prepositions.split()),
        goals=kinds(goals),
    )
    for verb, span, objects, prepositions, goals in read_table("""
        legen    day  text letter clothing tool   auf unter neben         furniture table
        legen    day  text clothing tool          in                      container cupboard
        legen    day  food                        in                      fridge
        stellen  day  container                   auf unter neben hinter  furniture table
        stellen  day  drink meal                  auf                     table
        stellen  day  drink meal                  in                      fridge
        stellen  day  furniture table             in                      room
    """)
]


def frames_of(verbs: str) -> list[tuple[float, list[Frame]]]:
    """The frames of some verbs, a list with the same weight for each verb."""
    frames = (
        *(*INTRANSITIVE, *TRANSITIVE, *DATIVE, *DITRANSITIVE),
        *(*PREPOSITIONAL, *MOVEMENT, *POSITION, *PLACEMENT),
    )
    return [(1, [frame for frame in frames if frame.verb is verb]) for verb in verbs_of(verbs)]


# What people do on the occasions that the sentences of two clauses are about.
ACTIVITIES = {
    occasion: frames_of(verbs)
    for occasion, verbs in read_table("""
        duty     arbeiten, ein|kaufen, an|rufen, ab|holen, besuchen, auf|räumen, waschen, helfen, schreiben
        leisure  lesen, schreiben, tanzen, treffen, besuchen, ein|laden, zu|hören, arbeiten, fahren, helfen
        errand   kaufen, ein|kaufen, besuchen, treffen, arbeiten, helfen, tanzen, verkaufen
        effort   arbeiten, tanzen, auf|räumen, waschen, ein|kaufen, laufen, helfen
        success  finden, kaufen, treffen, verkaufen, besuchen, ein|laden
        evening  ein|schlafen, arbeiten, ein|kaufen, fern|sehen, tanzen
        routine  lesen, trinken, essen, an|rufen, auf|räumen, waschen, vor|lesen, schreiben
        search   suchen, kaufen
        choice   kaufen, lesen
        mishap   verlieren, vergessen
    """)
}
ACTIVITIES["task"] = [
    *frames_of("ein|kaufen, sich aus|ruhen, helfen, danken, antworten, tanzen"),
    (
        5,
        [frame for frame in TRANSITIVE if frame.verb.aspect == "dynamic" and frame.verb is not VERBS["tragen"]],
    ),
    (2, DITRANSITIVE),
    (1, PLACEMENT),
]
ACTIVITIES["outing"] = [(1, [frame for frame in MOVEMENT if frame.goals != ("room",)])]
ACTIVITIES["trip"] = [(1, [frame for frame in MOVEMENT if set(frame.goals) & {"town", "city"}])]
