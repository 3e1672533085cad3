"""Number words from two to 999 and clock times, in German and English.

German puts the unit before the ten and writes one word ("einundzwanzig" for "twenty-one"), and counts the
half hour toward the next hour ("halb drei" for "half past two").
"""

from __future__ import annotations

from .lexicon import read_table

# The numbers whose words are not composed of others.
NUMBER_WORDS = {
    int(number): (german, english)
    for number, german, english in read_table("""
        1   eins      one
        2   zwei      two
        3   drei      three
        4   vier      four
        5   fünf      five
        6   sechs     six
        7   sieben    seven
        8   acht      eight
        9   neun      nine
        10  zehn      ten
        11  elf       eleven
        12  zwölf     twelve
        13  dreizehn  thirteen
        14  vierzehn  fourteen
        15  fünfzehn  fifteen
        16  sechzehn  sixteen
        17  siebzehn  seventeen
        18  achtzehn  eighteen
        19  neunzehn  nineteen
        20  zwanzig   twenty
        30  dreißig   thirty
        40  vierzig   forty
        50  fünfzig   fifty
        60  sechzig   sixty
        70  siebzig   seventy
        80  achtzig   eighty
        90  neunzig   ninety
    """)
}

# The minutes at which a clock time has a short name in both languages.
MINUTES = (0, 5, 10, 15, 20, 30, 40, 45, 50, 55)


def german_number(number: int) -> str:
    """The German word of a number from 1 to 999: 345 is "dreihundertfünfundvierzig"."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return german_unit(hundreds) + "hundert" + (german_number(rest) if rest else "")
    if number in NUMBER_WORDS:
        return NUMBER_WORDS[number][0]
    return german_unit(number % 10) + "und" + german_number(number - number % 10)


def german_unit(unit: int) -> str:
    """The form of a number before "hundert", "und" or "Uhr", where "eins" loses its "s"."""
    return "ein" if unit == 1 else NUMBER_WORDS[unit][0]


def english_number(number: int) -> str:
    """The English words of a number from 1 to 999: 345 is "three hundred and forty-five"."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return english_number(hundreds) + " hundred" + (" and " + english_number(rest) if rest else "")
    if number in NUMBER_WORDS:
        return NUMBER_WORDS[number][1]
    return english_number(number - number % 10) + "-" + english_number(number % 10)


def german_clock(hour: int, minute: int) -> str:
    """A German clock time, hour 1 to 12 and minute one of MINUTES: 2, 30 is "halb drei"."""
    this_hour, next_hour = german_number(hour), german_number(hour % 12 + 1)
    if minute == 0:
        return german_unit(hour) + " Uhr"
    if minute == 30:
        return "halb " + next_hour
    if minute < 30:
        return ("Viertel" if minute == 15 else german_number(minute)) + " nach " + this_hour
    return ("Viertel" if minute == 45 else german_number(60 - minute)) + " vor " + next_hour


def english_clock(hour: int, minute: int) -> str:
    """An English clock time, hour 1 to 12 and minute one of MINUTES: 2, 30 is "half past two"."""
    this_hour, next_hour = english_number(hour), english_number(hour % 12 + 1)
    if minute == 0:
        return this_hour + " o'clock"
    if minute == 30:
        return "half past " + this_hour
    if minute < 30:
        return ("a quarter" if minute == 15 else english_number(minute)) + " past " + this_hour
    return ("a quarter" if minute == 45 else english_number(60 - minute)) + " to " + next_hour
