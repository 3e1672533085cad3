"""One pipeline that many threads use at once, each call with settings of its own."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from hf_vaswani import TranslationPipeline, VaswaniTokenizer
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS

from ..conftest import slow_but, tiny_model, word_tokenizer
from ..families import FAMILIES, LANGUAGES, WORDS, family, languages, only_words

THREADS, CALLS = 8, 48
TEXTS = [" ".join(WORDS[i % len(WORDS)] for i in range(start, start + 3 + start % 5)) for start in range(20)]


@pytest.fixture
def busy_threads():
    """Threads that take turns as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(THREADS) as threads:
        yield threads
    sys.setswitchinterval(interval)


def mixed_calls(name, count):
    """Texts and settings of calls, drawn from a fixed seed."""
    draw = random.Random(0)
    pairs = [languages(name)]
    if name in LANGUAGES:
        pairs.append(dict(zip(("src_lang", "tgt_lang"), reversed(LANGUAGES[name]))))
    calls = []
    for _ in range(count):
        texts = draw.sample(TEXTS, draw.randint(1, 3))
        options = {**draw.choice(pairs), "max_new_tokens": draw.randint(2, 4), "num_workers": 1}
        kind = draw.randrange(5)
        if kind == 0:
            options |= {"truncation": True, "max_source_length": draw.randint(3, 6)}
        elif kind == 1:
            options |= {"n_best": 2, "num_beams": 2}
        elif kind == 2 and name != "mBART-50":
            options["prefixes"] = [draw.choice(WORDS) for _ in texts]
        elif kind == 3:
            options["return_alignments"] = True
        elif kind == 4:
            options |= {"stop_sequence": draw.choice(WORDS), "return_scores": True}
        calls.append((texts, options))
    return calls


def wrong_results(translator, threads, calls):
    expected = [translator(texts, **options) for texts, options in calls]
    got = threads.map(lambda call: translator(call[0], **call[1]), calls)
    return [number for number, (result, right) in enumerate(zip(got, expected)) if result != right]


def translator_of(name, folder):
    model, tokenizer = family(name, folder)
    languages = {getattr(tokenizer, "lang_code_to_id", {}).get(code, tokenizer.convert_tokens_to_ids(code))
                 for code in LANGUAGES.get(name, ())}  # fmt: skip
    suppressed = [i for i in only_words(name, tokenizer)["suppress_tokens"] if i not in languages]
    return TranslationPipeline(model, tokenizer=tokenizer, suppress_tokens=suppressed)


@pytest.mark.parametrize("name", slow_but(FAMILIES, "Vaswani"))
def test_calls_with_mixed_settings_do_not_affect_each_other(name, busy_threads, tmp_path):
    assert not wrong_results(translator_of(name, tmp_path), busy_threads, mixed_calls(name, CALLS))


@pytest.mark.slow
def test_calls_do_not_change_the_mode_of_a_model_in_training(busy_threads, tmp_path):
    translator = translator_of("Vaswani", tmp_path)
    calls = mixed_calls("Vaswani", CALLS)
    expected = [translator(texts, **options) for texts, options in calls]
    translator.model.train()
    assert list(busy_threads.map(lambda call: translator(call[0], **call[1]), calls)) == expected
    assert all(module.training for module in translator.model.modules())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Vaswani", "NLLB"])
def test_many_rounds_of_mixed_calls(name, busy_threads, tmp_path):
    translator, calls = translator_of(name, tmp_path), mixed_calls(name, 160)
    expected = [translator(texts, **options) for texts, options in calls]
    for _ in range(100):
        assert list(busy_threads.map(lambda call: translator(call[0], **call[1]), calls)) == expected


@pytest.mark.slow
def test_calls_with_separate_vocabularies_do_not_affect_each_other(busy_threads):
    tokenizer = VaswaniTokenizer.from_backends(
        word_tokenizer([*WORDS]), word_tokenizer([*reversed(WORDS)]), **SPECIAL_TOKENS
    )
    translator = TranslationPipeline(tiny_model(vocab_size=len(tokenizer)), tokenizer=tokenizer)
    assert not wrong_results(translator, busy_threads, mixed_calls("Vaswani", CALLS))


def test_texts_and_targets_are_encoded_side_by_side(busy_threads):
    source, target = word_tokenizer([*WORDS]), word_tokenizer([*reversed(WORDS)])
    tokenizer = VaswaniTokenizer.from_backends(source, target, **SPECIAL_TOKENS)
    first = len(SPECIAL_TOKENS)

    def encode(number):
        text, length = TEXTS[number % len(TEXTS)], 2 + number % 4
        options = {"truncation": True, "max_length": length} if number % 2 else {}
        words = text.split()[: length - 1] if options else text.split()
        sides = tokenizer(text, text_target=text, **options)
        assert sides["input_ids"] == [*(first + WORDS.index(word) for word in words), 2]
        assert sides["labels"] == [*(first + len(WORDS) - 1 - WORDS.index(word) for word in words), 2]

    list(busy_threads.map(encode, range(2000)))
