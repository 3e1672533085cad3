"""What the grammar's sentences do not have: numbers in digits, and more names than it has words for."""

from __future__ import annotations

import re
from random import Random

from .choices import chance, pick
from .numbers import english_number, german_number

# The share of numbers above twelve, of lower ones, and of names that are changed.
HIGH_NUMBERS, LOW_NUMBERS, NAMES = 0.5, 0.4, 0.5

# Names of the grammar, and others of their kind that are the same in both languages and take "s" in the genitive.
OTHERS = {
    "Anna Maria Julia Emma": """
        Amina Astrid Brigitte Carla Clara Dana Elena Emilia Eva Fatima Frieda Greta Hanna Helga Ida Irina Jana Johanna
        Karla Katharina Laura Lea Lena Lina Lisa Lotte Mia Mira Monika Nadja Nina Nora Olga Paula Petra Renate Rosa
        Ruth Sandra Sara Sofia Susanne Tina Ulrike Ursula Vera Yvonne Zoe""",
    "Peter Paul Martin David": """
        Adam Alexander Ali Anton Arthur Ben Bernd Carl Christian Daniel Dieter Emil Erik Ernst Finn Florian Frank Gerd
        Gustav Heinrich Henrik Ivan Jan Jonathan Karim Karl Kurt Leo Leon Manfred Michael Mustafa Noah Oliver Omar
        Oskar Philipp Ralf Robert Rolf Sebastian Simon Stefan Theo Tim Tom Uwe Walter Werner""",
    "Berlin Hamburg London": """
        Amsterdam Augsburg Basel Bielefeld Bochum Boston Bremen Chicago Dortmund Dresden Dublin Erfurt Frankfurt
        Freiburg Heidelberg Kassel Kiel Leipzig Linz Madrid Mainz Mannheim Oslo Potsdam Rostock Salzburg Stuttgart Ulm
        Weimar""",
}
OTHER_NAMES = {name: others.split() for names, others in OTHERS.items() for name in names.split()}
NAME = re.compile(rf"\b({'|'.join(OTHER_NAMES)})(?=s?\b)")
NUMBERS = {german_number(number): number for number in range(2, 1000)}


def varied(rng: Random, german: str, english: str) -> tuple[str, str]:
    """A pair of sentences, perhaps with other names, or with a number in digits."""
    for name in dict.fromkeys(NAME.findall(german)):
        if chance(rng, NAMES):
            other = pick(rng, OTHER_NAMES[name])
            if other not in german:
                german, english = (re.sub(rf"\b{name}(?=(?:'?s)?\b)", other, side) for side in (german, english))
    for match in list(re.finditer(r"(?<!halb )(?<!nach )(?<!vor )\b\w+\b(?! vor| nach)", german)):
        number = NUMBERS.get(match[0])
        if not number or not chance(rng, HIGH_NUMBERS if number > 12 else LOW_NUMBERS):
            continue
        in_german = re.compile(rf"\b{match[0]}\b")
        in_english = re.compile(rf"(?<![\w-]){english_number(number)}(?![\w-])")
        if len(in_german.findall(german)) == len(in_english.findall(english)) == 1:
            if number <= 12 and f"{match[0]} Uhr" not in german:  # any number of things, but not of hours of a day
                number = 2 + int(rng.random() * 98)
            german, english = in_german.sub(str(number), german), in_english.sub(str(number), english)
    return german, english
