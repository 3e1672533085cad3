"""The verbs of the built-in corpus: their forms in German and in English.

A bar in an infinitive ends the separable prefix ("an|rufen"), and a star in the English shows where a pronoun
goes ("pick * up"). `frames.py` says which complements each verb takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from .lexicon import read_table


@dataclass(frozen=True)
class Verb:
    """A German verb with its English counterpart."""

    infinitive: str  # without the separable prefix
    prefix: str  # the separable prefix, or ""
    reflexive: bool
    third_person: str  # "er" form of the present tense, without the prefix
    auxiliary: str  # of the perfect tense: "haben" or "sein"
    participle: str
    english: str  # the base form of the English verb, a key of ENGLISH_VERBS
    particle: str  # the words after the English verb: "up", "for", "interested"
    particle_after_pronoun: bool  # "picks him up", but "looks for him"
    # "dynamic" and "durative" verbs take the English progressive, "stative" ones do not; "punctual" and
    # "accidental" verbs are used in the present only for habits. In random clauses, modal verbs only go with "dynamic"
    # and "punctual" verbs, and the future also with "durative" ones.
    aspect: str

    @property
    def full_infinitive(self) -> str:
        """The infinitive as one word: "anrufen"."""
        return self.prefix + self.infinitive

    @property
    def zu_infinitive(self) -> str:
        """The infinitive with "zu": "zu lesen", "anzurufen"."""
        return f"{self.prefix}zu{self.infinitive}" if self.prefix else f"zu {self.infinitive}"


def make_verb(german: str, third_person: str, auxiliary: str, participle: str, english: str, aspect: str) -> Verb:
    """A verb from a row of the table of verbs."""
    prefix, _, infinitive = german.removeprefix("sich ").rpartition("|")
    base, *particle = english.split()
    return Verb(
        infinitive=infinitive,
        prefix=prefix,
        reflexive=german.startswith("sich "),
        third_person=third_person,
        auxiliary=auxiliary,
        participle=participle,
        english=base,
        particle=" ".join(word for word in particle if word != "*"),
        particle_after_pronoun="*" in particle,
        aspect=aspect,
    )


# German, "er" form, auxiliary, participle, English, aspect.
VERBS = {
    row[0]: make_verb(*row)
    for row in read_table("""
        sein                 ist           sein   gewesen        be              stative
        haben                hat           haben  gehabt         have            stative
        schlafen             schläft       haben  geschlafen     sleep           dynamic
        arbeiten             arbeitet      haben  gearbeitet     work            dynamic
        tanzen               tanzt         haben  getanzt        dance           dynamic
        auf|stehen           steht         sein   aufgestanden   get up          punctual
        ein|schlafen         schläft       sein   eingeschlafen  fall asleep     accidental
        ein|kaufen           kauft         haben  eingekauft     go shopping     dynamic
        fern|sehen           sieht         haben  ferngesehen    watch TV        dynamic
        sich beeilen         beeilt        haben  beeilt         hurry           dynamic
        sich aus|ruhen       ruht          haben  ausgeruht      rest            dynamic
        lesen                liest         haben  gelesen        read            dynamic
        schreiben            schreibt      haben  geschrieben    write           dynamic
        kaufen               kauft         haben  gekauft        buy             dynamic
        verkaufen            verkauft      haben  verkauft       sell            dynamic
        essen                isst          haben  gegessen       eat             dynamic
        trinken              trinkt        haben  getrunken      drink           dynamic
        suchen               sucht         haben  gesucht        look for        dynamic
        finden               findet        haben  gefunden       find            punctual
        verlieren            verliert      haben  verloren       lose            accidental
        vergessen            vergisst      haben  vergessen      forget          accidental
        sehen                sieht         haben  gesehen        see             stative
        brauchen             braucht       haben  gebraucht      need            stative
        kennen               kennt         haben  gekannt        know            stative
        mögen                mag           haben  gemocht        like            stative
        besuchen             besucht       haben  besucht        visit           dynamic
        treffen              trifft        haben  getroffen      meet            dynamic
        tragen               trägt         haben  getragen       wear            dynamic
        waschen              wäscht        haben  gewaschen      wash            dynamic
        an|rufen             ruft          haben  angerufen      call            dynamic
        ab|holen             holt          haben  abgeholt       pick * up       dynamic
        ein|laden            lädt          haben  eingeladen     invite          dynamic
        auf|räumen           räumt         haben  aufgeräumt     tidy * up       dynamic
        auf|machen           macht         haben  aufgemacht     open            dynamic
        zu|machen            macht         haben  zugemacht      close           dynamic
        an|ziehen            zieht         haben  angezogen      put * on        dynamic
        weg|werfen           wirft         haben  weggeworfen    throw * away    dynamic
        helfen               hilft         haben  geholfen       help            dynamic
        danken               dankt         haben  gedankt        thank           dynamic
        antworten            antwortet     haben  geantwortet    answer          dynamic
        zu|hören             hört          haben  zugehört       listen to       dynamic
        gehören              gehört        haben  gehört         belong to       stative
        gefallen             gefällt       haben  gefallen       like            stative
        geben                gibt          haben  gegeben        give            dynamic
        zeigen               zeigt         haben  gezeigt        show            dynamic
        bringen              bringt        haben  gebracht       bring           dynamic
        schicken             schickt       haben  geschickt      send            dynamic
        vor|lesen            liest         haben  vorgelesen     read            dynamic
        warten               wartet        haben  gewartet       wait            dynamic
        sprechen             spricht       haben  gesprochen     talk            dynamic
        denken               denkt         haben  gedacht        think           durative
        träumen              träumt        haben  geträumt       dream           durative
        lachen               lacht         haben  gelacht        laugh           durative
        sich freuen          freut         haben  gefreut        look forward    durative
        sich erinnern        erinnert      haben  erinnert       remember        stative
        sich interessieren   interessiert  haben  interessiert   be interested   stative
        kommen               kommt         sein   gekommen       come            stative
        wohnen               wohnt         haben  gewohnt        live            stative
        gehen                geht          sein   gegangen       go              dynamic
        fahren               fährt         sein   gefahren       go              dynamic
        fliegen              fliegt        sein   geflogen       fly             dynamic
        laufen               läuft         sein   gelaufen       run             dynamic
        liegen               liegt         haben  gelegen        lie             durative
        stehen               steht         haben  gestanden      stand           durative
        sitzen               sitzt         haben  gesessen       sit             durative
        legen                legt          haben  gelegt         put             dynamic
        stellen              stellt        haben  gestellt       put             dynamic
        an|kommen            kommt         sein   angekommen     arrive          punctual
        ab|fahren            fährt         sein   abgefahren     leave           punctual
        beginnen             beginnt       haben  begonnen       begin           punctual
        kosten               kostet        haben  gekostet       cost            stative
        sagen                sagt          haben  gesagt         say             stative
        glauben              glaubt        haben  geglaubt       think           stative
        hoffen               hofft         haben  gehofft        hope            stative
        wissen               weiß          haben  gewusst        know            stative
        bleiben              bleibt        sein   geblieben      stay            dynamic
        versuchen            versucht      haben  versucht       try             dynamic
        regnen               regnet        haben  geregnet       rain            dynamic
    """)
}

# Base form, third person, past, "-ing" form.
ENGLISH_VERBS = {
    row[0]: tuple(row)
    for row in read_table("""
        have      has        had         having
        sleep     sleeps     slept       sleeping
        work      works      worked      working
        dance     dances     danced      dancing
        get       gets       got         getting
        fall      falls      fell        falling
        go        goes       went        going
        watch     watches    watched     watching
        hurry     hurries    hurried     hurrying
        rest      rests      rested      resting
        read      reads      read        reading
        write     writes     wrote       writing
        buy       buys       bought      buying
        sell      sells      sold        selling
        eat       eats       ate         eating
        drink     drinks     drank       drinking
        look      looks      looked      looking
        find      finds      found       finding
        lose      loses      lost        losing
        forget    forgets    forgot      forgetting
        see       sees       saw         seeing
        need      needs      needed      needing
        know      knows      knew        knowing
        like      likes      liked       liking
        visit     visits     visited     visiting
        meet      meets      met         meeting
        wear      wears      wore        wearing
        wash      washes     washed      washing
        call      calls      called      calling
        pick      picks      picked      picking
        invite    invites    invited     inviting
        tidy      tidies     tidied      tidying
        open      opens      opened      opening
        close     closes     closed      closing
        put       puts       put         putting
        throw     throws     threw       throwing
        help      helps      helped      helping
        thank     thanks     thanked     thanking
        answer    answers    answered    answering
        listen    listens    listened    listening
        belong    belongs    belonged    belonging
        give      gives      gave        giving
        show      shows      showed      showing
        bring     brings     brought     bringing
        send      sends      sent        sending
        wait      waits      waited      waiting
        talk      talks      talked      talking
        think     thinks     thought     thinking
        dream     dreams     dreamt      dreaming
        laugh     laughs     laughed     laughing
        remember  remembers  remembered  remembering
        come      comes      came        coming
        live      lives      lived       living
        fly       flies      flew        flying
        run       runs       ran         running
        lie       lies       lay         lying
        stand     stands     stood       standing
        sit       sits       sat         sitting
        arrive    arrives    arrived     arriving
        leave     leaves     left        leaving
        begin     begins     began       beginning
        cost      costs      cost        costing
        say       says       said        saying
        hope      hopes      hoped       hoping
        want      wants      wanted      wanting
        stay      stays      stayed      staying
        try       tries      tried       trying
        rain      rains      rained      raining
    """)
}

# Present tense of the verbs that follow no rule: ich, du, er, wir, ihr, sie.
IRREGULAR_PRESENT = {
    "sein": ("bin", "bist", "ist", "sind", "seid", "sind"),
    "haben": ("habe", "hast", "hat", "haben", "habt", "haben"),
    "werden": ("werde", "wirst", "wird", "werden", "werdet", "werden"),
    "mögen": ("mag", "magst", "mag", "mögen", "mögt", "mögen"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wisst", "wissen"),
}

# The "ich" forms of the verbs whose past is the preterite here; all others use the perfect.
PRETERITE = {"sein": "war", "haben": "hatte", "mögen": "mochte", "kennen": "kannte"}


@dataclass(frozen=True)
class Modal:
    """A modal verb; English renders it with an auxiliary or with a verb and a particle ("have" + "to")."""

    present: tuple[str, ...]
    past: str  # the "ich" form, or "" where no past is used
    english: str
    english_past: str  # of an auxiliary without inflection, or ""
    particle: str


# "gern" is an adverb in German ("Ich lese gern") and a verb in English ("I like to read").
MODALS = {
    "können": Modal(("kann", "kannst", "kann", "können", "könnt", "können"), "konnte", "can", "could", ""),
    "müssen": Modal(("muss", "musst", "muss", "müssen", "müsst", "müssen"), "musste", "have", "", "to"),
    "wollen": Modal(("will", "willst", "will", "wollen", "wollt", "wollen"), "wollte", "want", "", "to"),
    "dürfen": Modal(("darf", "darfst", "darf", "dürfen", "dürft", "dürfen"), "durfte", "be", "", "allowed to"),
    "sollen": Modal(("sollte", "solltest", "sollte", "sollten", "solltet", "sollten"), "", "should", "should", ""),
    "möchten": Modal(
        ("möchte", "möchtest", "möchte", "möchten", "möchtet", "möchten"), "", "would", "would", "like to"
    ),
    "gern": Modal((), "", "like", "", "to"),
}
