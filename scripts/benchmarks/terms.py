"""Translations with terms: how many have them, their BLEU, and the speed, against translations without.

    python scripts/benchmarks/terms.py --model outputs/my_model --source test.de --reference test.en \\
        --glossary_from valid.de valid.en

The glossary has the words that IBM model 1 finds to be translations of each other in other sentence pairs, if the one
nearly always occurs where the other does. For "random 2", two words of its reference are the terms of each sentence;
for "phrase 4", it is a phrase of four words. Many of those words are in the translations without terms, too; for
"lacking 2", it is two words that do not. "accept" is the glossary, left to a model that has learned to use terms.
Contestants run in turn, each in its own process, with PyTorch. Speeds need an idle machine.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from itertools import compress
from pathlib import Path

import numpy as np
from measuring import compare, in_own_process, machine
from transformers import pipeline

from hf_vaswani.data.alignment import learn_translations
from hf_vaswani.evaluation.score import bleu
from hf_vaswani.text.glossary import Entry, Glossary, words

KINDS = ("without", "glossary", "random 1", "random 2", "random 4", "phrase 2", "phrase 4", "lacking 2", "accept")
SIZE, LEAST, SHARE = 200, 3, 0.8
# Letters of source and target: shorter words are hardly terms.
LETTERS = (4, 3)


def read(path: str | Path) -> list[str]:
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def make_glossary(sources: list[str], targets: list[str]) -> Glossary:
    """The most frequent words with a target word that is in nearly all of their translations."""
    sides = [[words(text) for text in texts] for texts in (sources, targets)]
    names = [list(dict.fromkeys(word for text in texts for word in text)) for texts in sides]
    numbers = [{word: number for number, word in enumerate(own)} for own in names]
    encoded = ([np.array([own[word] for word in text]) for text in texts] for own, texts in zip(numbers, sides))
    best = learn_translations(*encoded).best(1)
    counts = Counter(word for text in sides[0] for word in set(text))
    both = Counter(
        word for source, target in zip(*sides) for word in set(source)
        if numbers[0][word] in best and names[1][best[numbers[0][word]][0]] in target
    )  # fmt: skip
    kept = [
        word
        for word, count in counts.most_common()
        if word.isalnum() and count >= LEAST and both[word] >= SHARE * count
    ]
    entries = [Entry(word, (names[1][best[numbers[0][word]][0]],)) for word in kept]
    is_term = [len(entry.source) >= LETTERS[0] and len(entry.targets[0]) >= LETTERS[1] for entry in entries]
    return Glossary(list(compress(entries, is_term))[:SIZE])


def random_terms(
    sources: list[str], references: list[str], kind: str, number: int, translations: list[str]
) -> list[dict[str, str]]:
    """Random words of each reference, or a random phrase, as terms for words that occur once in its source.

    Args:
        translations: those without terms, for words that they lack.
    """
    generator, found = random.Random(0), []
    for source, reference, translation in zip(sources, references, translations):
        counts = Counter(word.lower() for word in words(source))
        keys = [word for word in words(source) if counts[word.lower()] == 1]
        if kind == "phrase":
            own = reference.split()
            start = generator.randrange(max(1, len(own) - number + 1))
            choice = [" ".join(own[start : start + number])]
        else:
            choice = [word for word in dict.fromkeys(words(reference)) if word.isalnum()]
            if kind == "lacking":
                known = {word.lower() for word in words(translation)}
                choice = [word for word in choice if word.lower() not in known]
            generator.shuffle(choice)
        found.append(dict(zip(keys, choice[:number])))
    return found


def measure(kind: str, options: argparse.Namespace) -> None:
    """Translate in this process, and print what was measured."""
    sources, references = read(options.source), read(options.reference)
    glossary = make_glossary(*map(read, options.glossary_from))
    terms = [glossary] * len(sources)
    translator = pipeline("translation", model=options.model, num_beams=options.num_beams, engine=options.engine)
    plain = [result["translation_text"] for result in translator(sources, return_warnings=False)]
    if kind not in ("without", "glossary", "accept"):
        name, number = kind.split()
        terms = [Glossary.of(own) for own in random_terms(sources, references, name, int(number), plain)]
    given = {} if kind == "without" else {"terms": terms, "return_warnings": False}
    given |= {"on_unmet": "accept"} if kind == "accept" else {}
    translator(sources, **given)  # spells the terms
    start = time.perf_counter()
    found = [result["translation_text"] for result in translator(sources, **given)]
    speed = len(sources) / (time.perf_counter() - start)
    demands = [
        (demand.count, demand.count_in(text), demand.count_in(before))
        for text, before, own, source in zip(found, plain, terms, sources)
        for demand in own.demands(source)
    ]
    all_, met, met_before = map(sum, zip(*demands))
    gained = sum(max(0, now - before) for _, now, before in demands)
    notes = f"{met / all_:.1%} of {all_} terms"
    if lacking := all_ - met_before:
        notes += f", {gained / lacking:.1%} of the {lacking} that are lacking without"
    print(json.dumps({"speed": speed, "notes": f"{notes}, BLEU {bleu(found, references).value:.2f}"}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder or Hub id")
    parser.add_argument("--source", required=True, help="text to translate, a sentence a line")
    parser.add_argument("--reference", required=True, help="its translations")
    parser.add_argument("--glossary_from", required=True, nargs=2, help="sentence pairs that the glossary is from")
    parser.add_argument("--num_beams", type=int, default=4)
    parser.add_argument("--engine", default="torch", help="of the first search")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="what to compare")
    parser.add_argument("--kind", choices=KINDS, help="measure this one here")
    options = parser.parse_args()
    if options.kind:
        measure(options.kind, options)
        return
    files = ("--model", options.model, "--source", options.source, "--reference", options.reference)
    more = ("--glossary_from", *options.glossary_from, "--num_beams", options.num_beams, "--engine", options.engine)
    table = compare(
        f"Terms: {options.model}, beam {options.num_beams}", "sentences", options.kinds, options.rounds,
        lambda kind: in_own_process(__file__, *files, *more, "--kind", kind),
    )  # fmt: skip
    print(table.markdown())
    print(machine(), file=sys.stderr)


if __name__ == "__main__":
    main()
