"""The built-in corpus: its splits, the German and English of its grammar, and its word-by-word baseline."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sacrebleu

from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from scripts import corpus as corpus_package
from scripts.corpus import english, generate_corpus, german, translate_word_by_word
from scripts.corpus.lexicon import (
    ADJECTIVES,
    DIRECTION_PREPOSITIONS,
    NOUNS,
    PLACE_PREPOSITIONS,
    Adverbial,
)
from scripts.corpus.numbers import english_clock, english_number, german_clock, german_number
from scripts.corpus.phrases import (
    BARE,
    DEFINITE,
    ER,
    ICH,
    IHR,
    INDEFINITE,
    NAME,
    NO_OBJECT,
    NO_SUBJECT,
    SIE,
    SIE_PLURAL,
    WIR,
    Clause,
    NounPhrase,
    Phrase,
    count,
    possessive,
    relative_pronoun,
)
from scripts.corpus.variety import OTHER_NAMES
from scripts.corpus.verbs import MODALS, VERBS

NAMES = frozenset(name for names in OTHER_NAMES.values() for name in names)
Splits = dict[str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def splits() -> Splits:
    return generate_corpus()


def bare(sentence: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", sentence.lower()).split())


def words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence.lower())


def digest(splits: Splits) -> str:
    return hashlib.sha256(json.dumps(splits, ensure_ascii=False).encode()).hexdigest()


# Splits


@pytest.mark.slow
def test_default_corpus_has_23000_training_500_validation_and_500_test_pairs(splits):
    assert {name: len(pairs) for name, pairs in splits.items()} == {
        "train": 23_000,
        "validation": 500,
        "test": 500,
    }


@pytest.mark.slow
def test_built_in_corpus_matches_its_generator(splits):
    shipped = {
        split: list(iterate_pairs(TextSource(dataset="built-in", split=split), ("de", "en"))) for split in splits
    }
    assert shipped == splits


def test_smallest_size_leaves_one_pair_for_training():
    assert [len(pairs) for pairs in generate_corpus(size=1_001).values()] == [1, 500, 500]


@pytest.mark.parametrize("size", [0, 1_000, 500_001])
def test_size_out_of_range_is_rejected_with_the_limits(size):
    with pytest.raises(ValueError, match=r"1,001 pairs .* to 500,000"):
        generate_corpus(size=size)


@pytest.mark.slow
def test_same_seed_gives_the_same_corpus_for_any_hash_seed():
    # Imported from its own folder, because the parent package takes seconds to import.
    folder = Path(corpus_package.__file__).parent
    script = (
        f"import sys, json, hashlib; sys.path.insert(0, {str(folder.parent)!r})\n"
        "from corpus import generate_corpus\n"
        "text = json.dumps(generate_corpus(seed=7, size=3_000), ensure_ascii=False)\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert digests == {digest(generate_corpus(seed=7, size=3_000))}


def test_different_seeds_give_different_sentences():
    first, second = (generate_corpus(seed=seed, size=2_000)["train"] for seed in (1, 2))
    assert len(set(first) & set(second)) < 0.1 * len(first)


def test_no_sentence_occurs_twice_on_either_side_ignoring_case_and_punctuation(splits):
    pairs = [pair for split in splits.values() for pair in split]
    for side in (0, 1):
        assert len({bare(pair[side]) for pair in pairs}) == len(pairs) == 24_000


def test_validation_and_test_sentences_are_unseen_in_training_on_both_sides(splits):
    for side in (0, 1):
        train, validation, test = ({bare(pair[side]) for pair in pairs} for pairs in splits.values())
        assert not train & validation
        assert not train & test
        assert not validation & test


def test_nearly_all_words_of_the_test_sentences_occur_in_training(splits):
    numbers = {german_number(number) for number in range(1, 1_000)}
    known = {word for pair in splits["train"] for word in words(pair[0])} | numbers
    test_words = [word for pair in splits["test"] for word in words(pair[0])]
    assert sum(word in known for word in test_words) >= 0.995 * len(test_words)


def test_numbers_and_changed_names_are_the_same_on_both_sides(splits):
    for german_sentence, english_sentence in splits["train"]:
        numbers = (sorted(re.findall(r"\d+", side)) for side in (german_sentence, english_sentence))
        names = (
            {name for name in NAMES if re.search(rf"\b{name}(?:'?s)?\b", side)}
            for side in (german_sentence, english_sentence)
        )
        assert len({*map(tuple, numbers)}) == 1
        assert len({*map(frozenset, names)}) == 1


def test_sentences_are_short(splits):
    lengths = [len(german.split()) for german, _ in splits["train"]]
    assert 7.5 < sum(lengths) / len(lengths) < 9.5
    assert sum(4 <= length <= 16 for length in lengths) > 0.95 * len(lengths)


def test_sentences_are_well_formed(splits):
    for pair in splits["train"]:
        for sentence in pair:
            assert re.fullmatch(r"[A-ZÄÖÜ][^.?]*[.?]", sentence), sentence
            assert not re.search(r"  | [,.?]|,[,.?]|\bNone\b", sentence), sentence
        assert pair[0][-1] == pair[1][-1], pair
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]|\bi\b", pair[1]), pair


# The baseline


def test_word_by_word_translation_scores_under_40_bleu_and_copying_under_10(splits):
    sources, references = (list(side) for side in zip(*splits["test"], strict=True))
    baseline = [translate_word_by_word(source) for source in sources]
    assert 20 < sacrebleu.corpus_bleu(baseline, [references]).score < 40
    assert sacrebleu.corpus_bleu(sources, [references]).score < 10


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("Anna kauft drei große Äpfel.", "Anna is buying three big apples."),
        ("Einundzwanzig Kinder schlafen.", "Twenty-one children sleep."),
        ("Ich sehe einen alten Mann.", "I see an old man."),
        ("Er hilft dem Mann, den ich kenne.", "He is helping the man, the I know."),
        ("Weißt du, wo meine Schwester arbeitet?", "Know you, where my sister is working?"),
        ("Wir haben dreihundertfünfundvierzig Bücher.", "We have three hundred and forty-five books."),
        ("Anna beeilt sich.", "Anna is hurrying."),
        ("Qwertz sieht Xylophone.", "Qwertz sees Xylophone."),
    ],
)
def test_word_by_word_translation_knows_inflected_forms_and_keeps_word_order(source, translation):
    assert translate_word_by_word(source) == translation


def test_baseline_dictionary_has_every_word_of_the_corpus(splits):
    known = corpus_package.dictionary.word_dictionary()
    names = {name + ending for name in NAMES for ending in ("", "s")}  # copied, like digits
    unknown = {
        word
        for pairs in splits.values()
        for german_sentence, _ in pairs
        for word in re.findall(r"\w+", german_sentence)
        if not word.isdigit() and word not in names and word not in known and word.lower() not in known
    }
    assert unknown == set()


# Words and phrases


@pytest.mark.parametrize(
    ("number", "expected_german", "expected_english"),
    [
        (2, "zwei", "two"),
        (16, "sechzehn", "sixteen"),
        (21, "einundzwanzig", "twenty-one"),
        (30, "dreißig", "thirty"),
        (77, "siebenundsiebzig", "seventy-seven"),
        (100, "einhundert", "one hundred"),
        (112, "einhundertzwölf", "one hundred and twelve"),
        (345, "dreihundertfünfundvierzig", "three hundred and forty-five"),
        (999, "neunhundertneunundneunzig", "nine hundred and ninety-nine"),
    ],
)
def test_number_words_of_both_languages(number, expected_german, expected_english):
    assert (german_number(number), english_number(number)) == (expected_german, expected_english)


@pytest.mark.parametrize(
    ("hour", "minute", "expected_german", "expected_english"),
    [
        (1, 0, "ein Uhr", "one o'clock"),
        (2, 30, "halb drei", "half past two"),
        (12, 30, "halb eins", "half past twelve"),
        (7, 15, "Viertel nach sieben", "a quarter past seven"),
        (7, 45, "Viertel vor acht", "a quarter to eight"),
        (9, 5, "fünf nach neun", "five past nine"),
        (11, 40, "zwanzig vor zwölf", "twenty to twelve"),
    ],
)
def test_clock_times_of_both_languages(hour, minute, expected_german, expected_english):
    assert (german_clock(hour, minute), english_clock(hour, minute)) == (expected_german, expected_english)


@pytest.mark.parametrize(
    ("phrase", "cases", "expected_english"),
    [
        (
            NounPhrase(NOUNS["Mann"], DEFINITE, adjective=ADJECTIVES["alt"]),
            ("der alte Mann", "den alten Mann", "dem alten Mann", "des alten Mannes"),
            "the old man",
        ),
        (
            NounPhrase(NOUNS["Apfel"], INDEFINITE, adjective=ADJECTIVES["teuer"]),
            ("ein teurer Apfel", "einen teuren Apfel", "einem teuren Apfel", "eines teuren Apfels"),
            "an expensive apple",
        ),
        (
            NounPhrase(NOUNS["Milch"], BARE, adjective=ADJECTIVES["warm"]),
            ("warme Milch", "warme Milch", "warmer Milch", "warmer Milch"),
            "warm milk",
        ),
        (
            NounPhrase(NOUNS["Kind"], possessive(IHR), "plural", ADJECTIVES["klein"]),
            ("eure kleinen Kinder", "eure kleinen Kinder", "euren kleinen Kindern", "eurer kleinen Kinder"),
            "your small children",
        ),
        (
            NounPhrase(NOUNS["Maus"], count(3), "plural", ADJECTIVES["weiß"]),
            ("drei weiße Mäuse", "drei weiße Mäuse", "drei weißen Mäusen", "drei weißer Mäuse"),
            "three white mice",
        ),
        (
            NounPhrase(NOUNS["Junge"], DEFINITE),
            ("der Junge", "den Jungen", "dem Jungen", "des Jungen"),
            "the boy",
        ),
        (
            NounPhrase(NOUNS["Haus"], DEFINITE, adjective=ADJECTIVES["dunkel"], degree="superlative"),
            ("das dunkelste Haus", "das dunkelste Haus", "dem dunkelsten Haus", "des dunkelsten Hauses"),
            "the darkest house",
        ),
        (
            NounPhrase(NOUNS["Auto"], DEFINITE, genitive=NounPhrase(NOUNS["Bruder"], possessive(ICH), "plural")),
            tuple(f"{article} meiner Brüder" for article in ("das Auto", "das Auto", "dem Auto", "des Autos")),
            "my brothers' car",
        ),
    ],
)
def test_noun_phrases_agree_in_gender_number_and_case(phrase, cases, expected_english):
    assert tuple(german.noun_phrase(phrase, case) for case in german.CASES) == cases
    assert english.noun_phrase(phrase) == expected_english


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("lesen", ("lese", "liest", "liest", "lesen", "lest", "lesen")),
        ("arbeiten", ("arbeite", "arbeitest", "arbeitet", "arbeiten", "arbeitet", "arbeiten")),
        ("tanzen", ("tanze", "tanzt", "tanzt", "tanzen", "tanzt", "tanzen")),
        ("essen", ("esse", "isst", "isst", "essen", "esst", "essen")),
        ("ein|laden", ("lade", "lädst", "lädt", "laden", "ladet", "laden")),
        ("waschen", ("wasche", "wäschst", "wäscht", "waschen", "wascht", "waschen")),
        ("wissen", ("weiß", "weißt", "weiß", "wissen", "wisst", "wissen")),
        ("treffen", ("treffe", "triffst", "trifft", "treffen", "trefft", "treffen")),
        ("sein", ("bin", "bist", "ist", "sind", "seid", "sind")),
    ],
)
def test_present_tense_of_regular_and_irregular_verbs(verb, forms):
    assert german.present(VERBS[verb]) == forms


@pytest.mark.parametrize(
    ("preposition", "place", "expected_german", "expected_english"),
    [
        (PLACE_PREPOSITIONS["in"], "Garten", "im Garten", "in the garden"),
        (DIRECTION_PREPOSITIONS["in"], "Garten", "in den Garten", "into the garden"),
        (DIRECTION_PREPOSITIONS["in"], "Museum", "ins Museum", "into the museum"),
        (PLACE_PREPOSITIONS["auf"], "Tisch", "auf dem Tisch", "on the table"),
        (DIRECTION_PREPOSITIONS["auf"], "Tisch", "auf den Tisch", "on the table"),
        (DIRECTION_PREPOSITIONS["zu"], "Schule", "zur Schule", "to the school"),
        (PLACE_PREPOSITIONS["an"], "Bahnhof", "am Bahnhof", "at the station"),
    ],
)
def test_prepositions_take_the_case_of_their_meaning_and_contract(
    preposition, place, expected_german, expected_english
):
    phrase = NounPhrase(NOUNS[place], DEFINITE)
    assert german.prepositional_phrase(preposition, phrase) == expected_german
    assert english.prepositional_phrase(preposition, phrase) == expected_english


# Clauses

ANNA = NounPhrase(NOUNS["Anna"], NAME)
CHILDREN = NounPhrase(NOUNS["Kind"], DEFINITE, "plural")
DOCTOR = NounPhrase(NOUNS["Arzt"], DEFINITE)
BOOK = NounPhrase(NOUNS["Buch"], INDEFINITE)
YESTERDAY = Adverbial("gestern", "yesterday", "past")
OFTEN = Adverbial("oft", "often", "habitual", position="middle")


@pytest.mark.parametrize(
    ("clause", "expected_german", "expected_english"),
    [
        (Clause(ANNA, VERBS["lesen"], direct=BOOK), "Anna liest ein Buch", "Anna is reading a book"),
        (
            Clause(ANNA, VERBS["lesen"], "habitual", direct=BOOK, time=OFTEN),
            "Anna liest oft ein Buch",
            "Anna often reads a book",
        ),
        (
            Clause(CHILDREN, VERBS["an|rufen"], direct=DOCTOR),
            "die Kinder rufen den Arzt an",
            "the children are calling the doctor",
        ),
        (
            Clause(ANNA, VERBS["ab|holen"], "past", direct=ER, time=YESTERDAY),
            "Anna hat ihn gestern abgeholt",
            "Anna picked him up yesterday",
        ),
        (
            Clause(ICH, VERBS["auf|stehen"], modal=MODALS["müssen"], negated=True),
            "ich muss nicht aufstehen",
            "I do not have to get up",
        ),
        (
            Clause(ANNA, VERBS["kennen"], direct=DOCTOR, negated=True),
            "Anna kennt den Arzt nicht",
            "Anna does not know the doctor",
        ),
        (
            Clause(ANNA, VERBS["kaufen"], "past", direct=NounPhrase(NOUNS["Ei"], NO_OBJECT, "plural")),
            "Anna hat keine Eier gekauft",
            "Anna did not buy any eggs",
        ),
        (
            Clause(NounPhrase(NOUNS["Kind"], NO_SUBJECT), VERBS["schlafen"], "past"),
            "kein Kind hat geschlafen",
            "no child slept",
        ),
        (
            Clause(WIR, VERBS["gehen"], "past", complement=Phrase("in den Park", "into the park")),
            "wir sind in den Park gegangen",
            "we went into the park",
        ),
        (
            Clause(CHILDREN, VERBS["sich beeilen"], "future"),
            "die Kinder werden sich beeilen",
            "the children will hurry",
        ),
        (
            Clause(ANNA, VERBS["geben"], "future", direct=BOOK, indirect=CHILDREN),
            "Anna wird den Kindern ein Buch geben",
            "Anna will give the children a book",
        ),
        (
            Clause(NounPhrase(NOUNS["Film"], DEFINITE), VERBS["gefallen"], "past", indirect=SIE),
            "der Film hat ihr gefallen",
            "she liked the film",
        ),
        (
            Clause(ANNA, VERBS["essen"], modal=MODALS["gern"], direct=NounPhrase(NOUNS["Apfel"], BARE, "plural")),
            "Anna isst gern Äpfel",
            "Anna likes to eat apples",
        ),
    ],
)
def test_main_clauses_have_the_finite_verb_second_and_its_other_parts_last(clause, expected_german, expected_english):
    assert german.verb_second(clause) == expected_german
    assert english.statement(clause) == expected_english


def test_german_object_or_adverbial_before_the_verb_moves_the_subject_after_it():
    clause = Clause(ANNA, VERBS["an|rufen"], "past", direct=DOCTOR, time=YESTERDAY)
    assert german.verb_second(clause, "time") == "gestern hat Anna den Arzt angerufen"
    assert german.verb_second(clause, "direct") == "den Arzt hat Anna gestern angerufen"


def test_subordinate_clauses_have_the_finite_verb_last():
    calls = Clause(ANNA, VERBS["an|rufen"], direct=DOCTOR)
    called = Clause(ANNA, VERBS["an|rufen"], "past", direct=DOCTOR)
    likes = Clause(NounPhrase(NOUNS["Haus"], DEFINITE), VERBS["gefallen"], indirect=ICH)
    assert german.verb_final(calls, "weil") == "weil Anna den Arzt anruft"
    assert german.verb_final(called, "dass") == "dass Anna den Arzt angerufen hat"
    assert german.verb_final(likes, "ob") == "ob mir das Haus gefällt"


def test_infinitives_with_zu_keep_the_separable_prefix_and_reflect_their_subject():
    assert german.infinitive(Clause(ANNA, VERBS["an|rufen"], direct=DOCTOR), "um") == "um den Arzt anzurufen"
    assert german.infinitive(Clause(WIR, VERBS["sich aus|ruhen"])) == "uns auszuruhen"
    assert english.infinitive(Clause(ANNA, VERBS["an|rufen"], direct=DOCTOR)) == "to call the doctor"


def test_questions_invert_the_german_verb_and_take_do_in_english():
    clause = Clause(SIE_PLURAL, VERBS["kennen"], direct=DOCTOR)
    assert german.verb_first(clause) == "kennen sie den Arzt"
    assert english.question(clause) == "do they know the doctor"
    belongs = Clause(NounPhrase(NOUNS["Hund"], DEFINITE), VERBS["gehören"])
    assert english.question(belongs, "who") == "who does the dog belong to"


def test_relative_pronouns_take_gender_from_the_noun_and_are_who_or_which():
    woman, books = NounPhrase(NOUNS["Frau"], DEFINITE), NounPhrase(NOUNS["Buch"], DEFINITE, "plural")
    assert german.nominal(relative_pronoun(woman), "dative") == "der"
    assert german.nominal(relative_pronoun(books), "dative") == "denen"
    assert english.nominal(relative_pronoun(woman), "object") == "whom"
    assert english.statement(Clause(relative_pronoun(books), VERBS["liegen"], "past")) == "which lay"


# Phenomena in the training split: name, German pattern, English pattern, minimum count.
PHENOMENA = [
    ("perfect with haben", r"\b(hat|haben|habe|hast|habt)\b.* (ge\w+|\w+ge\w+)[.?,]", r"", 2_800),
    (
        "perfect with sein",
        r"\b(ist|sind|bin|bist|seid)\b.* \w*(gangen|fahren|flogen|laufen|standen)\b",
        r"",
        500,
    ),
    ("future", r"\b(werden|wird|werde|wirst|werdet)\b", r"\bwill\b", 700),
    ("modal verb", r"\b(kann|können|muss|müssen|will|wollen|darf|dürfen|sollten?|möchten?)\b", r"", 1_500),
    ("modal verb in the past", r"\b(konn|muss|woll|durf)te", r"", 500),
    ("separable prefix at the end", r" (an|ab|auf|zu|weg|vor|ein|aus|fern)[.?,]", r"", 800),
    ("separable participle", r"\b(an|ab|auf|zu|weg|vor|ein|aus|fern)ge\w+", r"", 1_000),
    ("infinitive with zu", r"\b(zu \w+en|\w+zu\w+en)\.", r"\bto \w+", 700),
    ("um with infinitive", r", um\b", r"\bto \w+", 300),
    ("weil", r", weil\b", r"\bbecause\b", 800),
    ("denn", r", denn\b", r"\bbecause\b", 350),
    ("dass", r", dass\b", r"\bthat\b", 600),
    ("ob", r", ob\b", r"\bwhether\b", 200),
    ("wenn", r"\b[Ww]enn\b", r"\b[Ii]f\b", 500),
    ("obwohl", r"\b[Oo]bwohl\b", r"\b[Aa]lthough\b", 300),
    ("bevor", r"\b[Bb]evor\b", r"\b[Bb]efore\b", 150),
    ("deshalb", r", deshalb\b", r", so\b", 150),
    ("relative clause about a person", r", (die|der|das|den|dem|denen)\b", r"\bwhom?\b", 900),
    ("relative clause about a thing", r", (die|der|das|den|dem|denen)\b", r"\bwhich\b", 250),
    (
        "relative clause with a preposition",
        r", (an|auf|in|mit|von|über|für) (die|der|das|den|dem|denen)\b",
        r"",
        250,
    ),
    ("nicht", r"\bnicht\b", r"\bnot\b|\bcannot\b", 1_500),
    ("kein with an object", r"\bkein(e|en)?\b", r"\bnot\b|\bcannot\b", 300),
    ("kein with a subject", r"^Kein(e|er)?\b", r"^No\b", 100),
    ("yes/no question with do-support", r"\?$", r"^(Do|Does|Did)\b", 600),
    ("question word with do-support", r"^W\w+.*\?$", r"\b(do|does|did)\b", 800),
    ("gefallen", r"\bgef[aä]ll", r"\blike", 700),
    ("dative verb", r"\b(helfe|hilf|dank|antwort|geholfen|gedankt|geantwortet)", r"", 800),
    ("gern", r"\bgern\b", r"\blikes? to\b", 100),
    (
        "reflexive verb",
        r"\b(sich|mich|dich|uns|euch)\b.*\b(freu|beeil|erinner|interessier|ausge?ruh)",
        r"",
        200,
    ),
    ("genitive", r"\bdes \w+s\b|\bder \w+ (der|meiner|deiner|unserer)\b", r"\w's\b|s'", 350),
    ("comparative", r"\w+er als\b", r"\bthan\b", 250),
    ("so … wie", r"\bso \w+ wie\b", r"\bas \w+ as\b", 150),
    ("superlative", r"\w+ste[ns]?\b", r"\b\w+est\b|\bmost\b", 200),
    ("place in the dative", r"\b[Ii]m \w+", r"\bin the\b", 500),
    ("direction in the accusative", r"\b(in den|ins|in die)\b", r"\binto\b", 700),
    ("pronoun of a thing", r", (aber|weil|denn) (er|sie|es)\b", r"\bit\b", 500),
    ("girl is es", r"\bMädchen\b.*\b(weil|aber|denn|wenn|deshalb)\b.*\bes\b", r"\bshe\b", 10),
    ("seit with the present", r"\b[Ss]eit\b", r"\b(has|have) been \w+ing\b", 400),
    ("clock time before the hour", r"\bhalb \w+", r"\bhalf past\b", 150),
    ("number above twenty", r"\b\w+und\w+zig\b", r"\b\w+ty-\w+", 250),
    ("number above one hundred", r"\b\w+hundert", r"\bhundred\b", 200),
    ("number in digits", r"\b\d+\b", r"\b\d+\b", 500),
    ("time before the verb", r"^(Gestern|Heute|Morgen|Jetzt|Jeden|Letzte|Nächste)\b", r"", 700),
    ("compound noun", r"\b(Haustür|Küchentisch|Schlafzimmer|Kinderbuch|Tomatensuppe|Handtasche)", r"", 1_000),
    ("es gibt", r"\bgibt es\b|\b[Ee]s gibt\b", r"\b[Tt]here (is|are)\b", 300),
]


@pytest.mark.parametrize(
    ("german_pattern", "english_pattern", "minimum"),
    [row[1:] for row in PHENOMENA],
    ids=[row[0] for row in PHENOMENA],
)
def test_each_phenomenon_occurs_often_in_training(splits, german_pattern, english_pattern, minimum):
    found = sum(
        bool(re.search(german_pattern, source) and re.search(english_pattern, target))
        for source, target in splits["train"]
    )
    assert found >= minimum


def test_every_german_noun_adjective_and_verb_occurs_often_in_training(splits):
    counts = Counter(word for source, _ in splits["train"] for word in words(source))
    for noun in NOUNS.values():
        forms = {german.noun_form(NounPhrase(noun, NAME), case) for case in german.CASES}
        if noun.plural:
            forms |= {german.noun_form(NounPhrase(noun, NAME, "plural"), case) for case in german.CASES}
        assert sum(counts[form.lower()] for form in forms) >= 50, noun.german
    for adjective in ADJECTIVES.values():
        stems = [stem for stem in (adjective.stem, adjective.comparative, adjective.superlative) if stem]
        forms = {stem + ending for stem in stems for ending in ("", "e", "en", "em", "er", "es")}
        assert sum(counts[form] for form in forms | {adjective.german}) >= 50, adjective.german
    for verb in VERBS.values():
        forms = {*german.present(verb), verb.participle, verb.full_infinitive}
        assert sum(counts[form] for form in forms) >= 50, verb.full_infinitive


def test_no_word_order_or_sentence_type_dominates(splits):
    openings = Counter(source.split()[0] for source, _ in splits["train"])
    assert max(openings.values()) < 0.15 * len(splits["train"])
