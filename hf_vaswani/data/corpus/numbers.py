"""Number words from two to 999 and clock times, in German and English.

German puts the unit before the ten and writes one word ("einundzwanzig" for "twenty-one"), and counts the
half hour towards the next hour ("halb drei" for "half past two").
"""

from __future__ import annotations

GERMAN_TO_TWELVE = "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
GERMAN_TEENS = "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()
GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()

ENGLISH_TO_TWELVE = "zero one two three four five six seven eight nine ten eleven twelve".split()
ENGLISH_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def german_number(number: int) -> str:
    """The German word of a number from 0 to 999: 345 is "dreihundertfünfundvierzig"."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return german_unit(hundreds) + "hundert" + (german_number(rest) if rest else "")
    if number < 20:
        return (GERMAN_TO_TWELVE + GERMAN_TEENS)[number]
    tens, unit = divmod(number, 10)
    return (german_unit(unit) + "und" if unit else "") + GERMAN_TENS[tens - 2]


def german_unit(unit: int) -> str:
    """The form of a unit inside a longer number word, where "eins" loses its "s"."""
    return "ein" if unit == 1 else GERMAN_TO_TWELVE[unit]


def english_number(number: int) -> str:
    """The English words of a number from 0 to 999: 345 is "three hundred and forty-five"."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return ENGLISH_TO_TWELVE[hundreds] + " hundred" + (" and " + english_number(rest) if rest else "")
    if number < 20:
        return (ENGLISH_TO_TWELVE + ENGLISH_TEENS)[number]
    tens, unit = divmod(number, 10)
    return ENGLISH_TENS[tens - 2] + ("-" + ENGLISH_TO_TWELVE[unit] if unit else "")


# The minutes of the clock times that both languages name by a fraction or by "past" and "to".
MINUTES = (0, 5, 10, 15, 20, 30, 40, 45, 50, 55)


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
