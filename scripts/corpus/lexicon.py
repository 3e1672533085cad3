"""The nouns, names, adjectives, adverbials and prepositions of the built-in corpus, with their English.

Each word class is a table with one word per line, its cells two or more spaces apart. The column `kind` says
what sort of thing a noun names, and verbs and adjectives choose their nouns by kind. The verbs are in
`verbs.py`, pronouns and determiners in `phrases.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


def read_table(table: str) -> list[list[str]]:
    """The rows of a table of words; two or more spaces separate its cells, a cell "-" is empty."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in table.strip().splitlines()]
    return [["" if cell == "-" else cell for cell in row] for row in rows]


@dataclass(frozen=True)
class Noun:
    """A noun or name; `plural` is empty where there is none, `pronoun` is the English one of the singular."""

    german: str
    gender: str  # "m", "f" or "n"
    plural: str
    english: str
    english_plural: str
    kind: str
    pronoun: str = "it"

    @property
    def weak(self) -> bool:
        """Whether the singular takes -n or -en in all cases but the nominative."""
        return self.german in WEAK_NOUNS


@dataclass(frozen=True)
class Adjective:
    """An adjective; `stem` takes the endings, the degrees are empty for adjectives without comparison."""

    german: str
    stem: str
    comparative: str
    superlative: str
    english: str
    english_comparative: str
    english_superlative: str


@dataclass(frozen=True)
class Adverbial:
    """An adverbial of time, which decides the English tense form of a German present tense."""

    german: str
    english: str
    use: str  # "past", "present", "future" or "habitual": the tense that it goes with
    span: str = "day"  # "day", or "week" for those that only go with events that may lie weeks apart
    position: str = "final"  # in English: "final", or "middle", between subject and verb
    frontable: bool = True  # whether a German sentence may open with it


@dataclass(frozen=True)
class Preposition:
    """A preposition in one meaning, with the case that it takes in this meaning."""

    german: str
    case: str
    english: str


# In the oblique cases, their singular is like the plural: "den Jungen", "dem Studenten".
WEAK_NOUNS = ("Junge", "Nachbar", "Student")

# German, gender, plural, English, plural, kind, English pronoun. "Kind" has no pronoun: English would have to
# choose between "he" and "she".
PEOPLE = """
    Mann         m  Männer         man          men           person  he
    Frau         f  Frauen         woman        women         person  she
    Lehrer       m  Lehrer         teacher      teachers      person  he
    Lehrerin     f  Lehrerinnen    teacher      teachers      person  she
    Arzt         m  Ärzte          doctor       doctors       person  he
    Nachbar      m  Nachbarn       neighbour    neighbours    person  he
    Student      m  Studenten      student      students      person  he
    Kind         n  Kinder         child        children      child   -
    Junge        m  Jungen         boy          boys          child   he
    Mädchen      n  Mädchen        girl         girls         child   she
    Vater        m  Väter          father       fathers       kin     he
    Mutter       f  Mütter         mother       mothers       kin     she
    Bruder       m  Brüder         brother      brothers      kin     he
    Schwester    f  Schwestern     sister       sisters       kin     she
    Großmutter   f  Großmütter     grandmother  grandmothers  kin     she
    Freund       m  Freunde        friend       friends       kin     he
    Anna         f  -              Anna         -             name    she
    Maria        f  -              Maria        -             name    she
    Julia        f  -              Julia        -             name    she
    Emma         f  -              Emma         -             name    she
    Peter        m  -              Peter        -             name    he
    Paul         m  -              Paul         -             name    he
    Martin       m  -              Martin       -             name    he
    David        m  -              David        -             name    he
"""

# German, gender, plural, English, plural, kind.
THINGS = """
    Hund              m  Hunde             dog              dogs              animal
    Katze             f  Katzen            cat              cats              animal
    Kaninchen         n  Kaninchen         rabbit           rabbits           animal
    Maus              f  Mäuse             mouse            mice              animal
    Apfel             m  Äpfel             apple            apples            food
    Ei                n  Eier              egg              eggs              food
    Kuchen            m  Kuchen            cake             cakes             food
    Kartoffel         f  Kartoffeln        potato           potatoes          food
    Tomate            f  Tomaten           tomato           tomatoes          food
    Brot              n  -                 bread            -                 bread
    Suppe             f  Suppen            soup             soups             meal
    Tomatensuppe      f  Tomatensuppen     tomato soup      tomato soups      meal
    Kaffee            m  -                 coffee           -                 drink
    Tee               m  -                 tea              -                 drink
    Wasser            n  -                 water            -                 drink
    Milch             f  -                 milk             -                 drink
    Apfelsaft         m  -                 apple juice      -                 drink
    Buch              n  Bücher            book             books             text
    Kinderbuch        n  Kinderbücher      children's book  children's books  text
    Zeitung           f  Zeitungen         newspaper        newspapers        text
    Brief             m  Briefe            letter           letters           letter
    Geschichte        f  Geschichten       story            stories           story
    Film              m  Filme             film             films             event
    Konzert           n  Konzerte          concert          concerts          event
    Hut               m  Hüte              hat              hats              clothing
    Mantel            m  Mäntel            coat             coats             clothing
    Hemd              n  Hemden            shirt            shirts            clothing
    Jacke             f  Jacken            jacket           jackets           clothing
    Schlüssel         m  Schlüssel         key              keys              tool
    Haustürschlüssel  m  Haustürschlüssel  front door key   front door keys   tool
    Messer            n  Messer            knife            knives            tool
    Ball              m  Bälle             ball             balls             thing
    Lampe             f  Lampen            lamp             lamps             thing
    Blume             f  Blumen            flower           flowers           thing
    Bild              n  Bilder            picture          pictures          picture
    Tasche            f  Taschen           bag              bags              container
    Handtasche        f  Handtaschen       handbag          handbags          container
    Koffer            m  Koffer            suitcase         suitcases         container
    Schrank           m  Schränke          cupboard         cupboards         cupboard
    Kühlschrank       m  Kühlschränke      fridge           fridges           fridge
    Tisch             m  Tische            table            tables            table
    Küchentisch       m  Küchentische      kitchen table    kitchen tables    table
    Stuhl             m  Stühle            chair            chairs            furniture
    Bett              n  Betten            bed              beds              furniture
    Auto              n  Autos             car              cars              vehicle
    Fahrrad           n  Fahrräder         bicycle          bicycles          vehicle
    Bus               m  Busse             bus              buses             transport
    Zug               m  Züge              train            trains            transport
    Tür               f  Türen             door             doors             door
    Haustür           f  Haustüren         front door       front doors       door
    Fenster           n  Fenster           window           windows           door
    Küche             f  Küchen            kitchen          kitchens          room
    Garten            m  Gärten            garden           gardens           room
    Wohnzimmer        n  Wohnzimmer        living room      living rooms      room
    Schlafzimmer      n  Schlafzimmer      bedroom          bedrooms          room
    Haus              n  Häuser            house            houses            house
    Schule            f  Schulen           school           schools           building
    Museum            n  Museen            museum           museums           building
    Restaurant        n  Restaurants       restaurant       restaurants       building
    Krankenhaus       n  Krankenhäuser     hospital         hospitals         building
    Park              m  Parks             park             parks             outdoors
    Wald              m  Wälder            forest           forests           outdoors
    Stadt             f  Städte            city             cities            town
    Bahnhof           m  Bahnhöfe          station          stations          stop
    Flughafen         m  Flughäfen         airport          airports          stop
    Wetter            n  -                 weather          -                 weather
    Zeit              f  -                 time             -                 time
    Berlin            n  -                 Berlin           -                 city
    Hamburg           n  -                 Hamburg          -                 city
    London            n  -                 London           -                 city
    Wien              n  -                 Vienna           -                 city
    München           n  -                 Munich           -                 city
"""

# The kinds of noun that name people: "who" and not "which", and subjects of most verbs.
PEOPLE_KINDS = ("person", "child", "kin", "name")

NOUNS = {row[0]: Noun(*row) for row in read_table(PEOPLE) + read_table(THINGS)}

# Units that are counted: German, plural, English, plural.
UNITS = {
    row[0]: tuple(row)
    for row in read_table("""
        Jahr       Jahre      year       years
        Woche      Wochen     week       weeks
        Tag        Tage       day        days
        Stunde     Stunden    hour       hours
        Minute     Minuten    minute     minutes
        Seite      Seiten     page       pages
        Euro       Euro       euro       euros
        Kilometer  Kilometer  kilometre  kilometres
    """)
}

# German, stem, comparative, superlative stem, English, comparative, superlative.
ADJECTIVE_ROWS = """
    groß         groß         größer         größt           big          bigger            biggest
    klein        klein        kleiner        kleinst         small        smaller           smallest
    alt          alt          älter          ältest          old          older             oldest
    jung         jung         jünger         jüngst          young        younger           youngest
    neu          neu          neuer          neuest          new          newer             newest
    schön        schön        schöner        schönst         beautiful    more beautiful    most beautiful
    teuer        teur         teurer         teuerst         expensive    more expensive    most expensive
    billig       billig       billiger       billigst        cheap        cheaper           cheapest
    rot          rot          -              -               red          -                 -
    blau         blau         -              -               blue         -                 -
    schwarz      schwarz      -              -               black        -                 -
    weiß         weiß         -              -               white        -                 -
    warm         warm         wärmer         wärmst          warm         warmer            warmest
    kalt         kalt         kälter         kältest         cold         colder            coldest
    frisch       frisch       -              -               fresh        -                 -
    gut          gut          besser         best            good         better            best
    schlecht     schlecht     schlechter     schlechtest     bad          worse             worst
    lang         lang         länger         längst          long         longer            longest
    kurz         kurz         kürzer         kürzest         short        shorter           shortest
    interessant  interessant  interessanter  interessantest  interesting  more interesting  most interesting
    schnell      schnell      schneller      schnellst       fast         faster            fastest
    schwer       schwer       schwerer       schwerst        heavy        heavier           heaviest
    leer         leer         -              -               empty        -                 -
    dunkel       dunkl        dunkler        dunkelst        dark         darker            darkest
    klug         klug         klüger         klügst          clever       cleverer          cleverest
    freundlich   freundlich   freundlicher   freundlichst    friendly     friendlier        friendliest
    müde         müd          -              -               tired        -                 -
    krank        krank        -              -               sick         -                 -
    glücklich    glücklich    glücklicher    glücklichst     happy        happier           happiest
    hungrig      hungrig      -              -               hungry       -                 -
"""

ADJECTIVES = {row[0]: Adjective(*row) for row in read_table(ADJECTIVE_ROWS)}

# The adjectives that go with the nouns of each kind.
ADJECTIVES_OF_KIND = {
    kind: [ADJECTIVES[german] for german in adjectives.split()]
    for kind, adjectives in read_table("""
        person     alt jung klug freundlich müde krank glücklich hungrig
        child      klein klug freundlich müde krank glücklich hungrig
        kin        klug freundlich müde krank glücklich hungrig
        animal     groß klein alt jung schwarz weiß schnell klug müde krank hungrig
        food       groß klein frisch gut teuer billig
        bread      frisch gut teuer billig
        meal       warm kalt gut
        drink      warm kalt frisch gut
        text       alt neu gut schlecht interessant teuer billig
        letter     alt neu lang kurz schön interessant
        story      alt neu gut schlecht lang kurz schön interessant
        event      gut schlecht lang kurz schön interessant
        clothing   alt neu schön warm teuer billig rot blau schwarz weiß
        tool       groß klein alt neu
        thing      groß klein schön teuer billig rot blau weiß
        picture    groß klein alt neu schön teuer interessant
        container  groß klein alt neu schwer leer rot blau schwarz teuer
        cupboard   groß klein alt neu leer schwer weiß
        fridge     groß klein alt neu leer teuer
        furniture  groß klein alt neu schön schwer teuer billig weiß schwarz
        table      groß klein alt neu schön schwer teuer billig weiß schwarz
        vehicle    alt neu schön schnell teuer billig rot blau schwarz weiß
        transport  alt neu schnell leer
        door       groß klein alt neu schwer weiß
        room       groß klein schön warm kalt dunkel leer
        house      groß klein alt neu schön teuer dunkel leer
        building   groß klein alt neu schön gut
        outdoors   groß klein schön dunkel
        town       groß klein alt schön interessant
        stop       groß klein alt neu
        city       groß schön interessant teuer
    """)
}

# German, English, use, span, position in English, frontable.
TIME_ADVERBIALS = [
    Adverbial(*row[:5], frontable=row[5] == "yes")
    for row in read_table("""
        gestern          yesterday          past      day   final   yes
        gestern Abend    yesterday evening  past      day   final   yes
        heute Morgen     this morning       past      day   final   yes
        letzte Woche     last week          past      week  final   yes
        letztes Jahr     last year          past      week  final   yes
        jetzt            now                present   day   final   yes
        gerade           at the moment      present   day   final   no
        heute            today              present   day   final   yes
        heute            today              past      day   final   yes
        heute            today              future    day   final   yes
        morgen           tomorrow           future    day   final   yes
        morgen Abend     tomorrow evening   future    day   final   yes
        bald             soon               future    day   final   yes
        am Freitag       on Friday          future    day   final   yes
        nächste Woche    next week          future    week  final   yes
        nächstes Jahr    next year          future    week  final   yes
        jeden Tag        every day          habitual  day   final   yes
        jeden Morgen     every morning      habitual  day   final   yes
        am Wochenende    at the weekend     habitual  day   final   yes
        sonntags         on Sundays         habitual  day   final   yes
        jede Woche       every week         habitual  week  final   yes
        immer            always             habitual  day   middle  no
        oft              often              habitual  day   middle  yes
        manchmal         sometimes          habitual  day   middle  yes
        selten           rarely             habitual  day   middle  no
        nie              never              habitual  day   middle  no
    """)
]

# Prepositions of place: the dative says where something is, the accusative where it goes.
PLACE_PREPOSITIONS = {
    "in": Preposition("in", "dative", "in"),
    "auf": Preposition("auf", "dative", "on"),
    "unter": Preposition("unter", "dative", "under"),
    "neben": Preposition("neben", "dative", "next to"),
    "hinter": Preposition("hinter", "dative", "behind"),
    "vor": Preposition("vor", "dative", "in front of"),
    "an": Preposition("an", "dative", "at"),
}
DIRECTION_PREPOSITIONS = {
    "in": Preposition("in", "accusative", "into"),
    "auf": Preposition("auf", "accusative", "on"),
    "unter": Preposition("unter", "accusative", "under"),
    "neben": Preposition("neben", "accusative", "next to"),
    "hinter": Preposition("hinter", "accusative", "behind"),
    "vor": Preposition("vor", "accusative", "in front of"),
    "zu": Preposition("zu", "dative", "to"),
    "nach": Preposition("nach", "dative", "to"),
}
COMPANY_PREPOSITIONS = (Preposition("mit", "dative", "with"), Preposition("ohne", "accusative", "without"))

# Means of transport, which German uses with the article and English without.
VEHICLES = {
    row[0]: row[1]
    for row in read_table("""
        mit dem Zug      by train
        mit dem Bus      by bus
        mit dem Auto     by car
        mit dem Fahrrad  by bicycle
    """)
}

# Circumstances with the genitive or the dative: German, English.
CIRCUMSTANCES = read_table("""
    wegen des Regens              because of the rain
    wegen des schlechten Wetters  because of the bad weather
    trotz des Regens              despite the rain
    trotz des schlechten Wetters  despite the bad weather
    während des Konzerts          during the concert
    während des Films             during the film
    nach dem Konzert              after the concert
    nach der Schule               after school
    vor dem Konzert               before the concert
""")
