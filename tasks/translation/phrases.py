"""`mini`'s text: phrases that Babel writes in English and in German from CLDR's tables, one meaning in both.

A phrase is a date, a span of dates, a moment, a clock time, a duration, a quantity, an amount of money, a share, or a
list of places or of languages. Each kind's meanings are drawn once, so no two phrases of a kind mean the same in
different formats; sources are distinct, and so are targets.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable
from decimal import Decimal
from typing import Literal

import numpy as np
from babel import Locale
from babel.dates import format_date, format_interval, format_time
from babel.languages import get_territory_language_info
from babel.lists import format_list
from babel.numbers import format_compact_decimal, format_currency, format_percent
from babel.units import format_unit

SEED = 4
ENGLISH, GERMAN = Locale("en"), Locale("de")
UNITS = str.split(
    "angle-degree area-square-kilometer area-hectare area-square-meter area-acre digital-terabyte digital-gigabyte "
    "digital-megabit energy-kilocalorie energy-joule energy-kilowatt-hour force-newton frequency-gigahertz "
    "frequency-hertz graphics-megapixel length-kilometer length-meter length-centimeter length-mile length-yard "
    "length-foot length-inch length-light-year length-nautical-mile mass-kilogram mass-gram mass-pound mass-ounce "
    "mass-carat power-kilowatt power-watt power-horsepower pressure-bar pressure-hectopascal speed-kilometer-per-hour "
    "speed-meter-per-second speed-mile-per-hour speed-knot temperature-celsius temperature-fahrenheit "
    "volume-cubic-meter volume-liter volume-milliliter volume-gallon volume-cup volume-tablespoon volume-barrel"
)
CURRENCIES = str.split(
    "AED ARS AUD BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KES KRW MXN MYR NGN NOK NZD "
    "PEN PHP PLN RON RUB SAR SEK SGD THB TRY UAH USD VND ZAR"
)
PLACES = sorted(code for code in map(str, GERMAN.territories) if get_territory_language_info(code))
LANGUAGES = sorted(code for code in map(str, GERMAN.languages) if len(code) == 2)
CONJUNCTIONS: tuple[Literal["standard", "or"], ...] = ("standard", "or")

Write = Callable[[Locale], str]
Draw = np.random.Generator


def _one(draw: Draw, values: list[str]) -> str:
    return values[draw.integers(len(values))]


def _day(draw: Draw) -> datetime.date:
    return datetime.date(1900, 1, 1) + datetime.timedelta(int(draw.integers(73_000)))


def _clock(draw: Draw) -> datetime.time:
    hour, minute, second = (int(draw.integers(end)) for end in (24, 60, 60))
    return datetime.time(hour, minute, second)


def _number(draw: Draw) -> float:
    """A positive number with one to seven digits, up to two of them after the point."""
    digits, decimals = int(draw.integers(1, 8)), int(draw.integers(3))
    return float(int(draw.integers(1, 10**digits)) / 10**decimals)


def _names(draw: Draw, codes: list[str]) -> tuple[str, ...]:
    return tuple(codes[i] for i in draw.choice(len(codes), int(draw.integers(2, 5)), replace=False))


def _date(draw: Draw) -> tuple[Hashable, Write]:
    day, style = _day(draw), _one(draw, ["full", "long", "medium", "short"])
    return day, lambda locale: format_date(day, style, locale)


def _span(draw: Draw) -> tuple[Hashable, Write]:
    first = _day(draw)
    last = first + datetime.timedelta(int(draw.integers(1, 600)))
    return (first, last), lambda locale: format_interval(first, last, "yMMMd", locale=locale)


def _moment(draw: Draw) -> tuple[Hashable, Write]:
    day, clock = _day(draw), _clock(draw).replace(second=0)

    def write(locale: Locale) -> str:
        pattern = str(locale.datetime_formats["long"]).replace("'", "")
        return pattern.format(format_time(clock, "short", locale=locale), format_date(day, "full", locale))

    return (day, clock), write


def _time(draw: Draw) -> tuple[Hashable, Write]:
    clock = _clock(draw)
    return clock, lambda locale: format_time(clock, "medium", locale=locale)


def _duration(draw: Draw) -> tuple[Hashable, Write]:
    parts = tuple(int(draw.integers(1, end)) for end in (400, 24, 60, 60))
    units = ("duration-day", "duration-hour", "duration-minute", "duration-second")
    first = int(draw.integers(3))
    amounts = tuple(zip(parts, units, strict=True))[first:]
    return amounts, lambda locale: format_list([format_unit(*part, locale=locale) for part in amounts], locale=locale)


def _quantity(draw: Draw) -> tuple[Hashable, Write]:
    number, unit = _number(draw), _one(draw, UNITS)
    return (number, unit), lambda locale: format_unit(number, unit, locale=locale)


def _money(draw: Draw) -> tuple[Hashable, Write]:
    number, currency = _number(draw), _one(draw, CURRENCIES)

    def write(locale: Locale) -> str:
        return str(format_currency(number, currency, locale=locale, format_type="name"))

    return (number, currency), write


def _share(draw: Draw) -> tuple[Hashable, Write]:
    number = Decimal(int(draw.integers(1, 100_000))).scaleb(-2)
    if draw.integers(2):
        return number, lambda locale: format_percent(number / 100, locale=locale, decimal_quantization=False)
    large = number * 10 ** int(draw.choice([6, 9, 12]))
    return large, lambda locale: format_compact_decimal(large, format_type="long", locale=locale, fraction_digits=2)


def _places(draw: Draw) -> tuple[Hashable, Write]:
    codes, style = _names(draw, PLACES), CONJUNCTIONS[draw.integers(2)]
    return frozenset(codes), lambda locale: format_list([locale.territories[c] for c in codes], style, locale)


def _languages(draw: Draw) -> tuple[Hashable, Write]:
    codes, style = _names(draw, LANGUAGES), CONJUNCTIONS[draw.integers(2)]
    return frozenset(codes), lambda locale: format_list([locale.languages[c] for c in codes], style, locale)


KINDS = (_date, _span, _moment, _time, _duration, _quantity, _money, _share, _places, _languages)


def phrases(count: int) -> tuple[list[str], list[str]]:
    """`count` phrases in English and in German, kinds in turn, always the same for one version of Babel.

    White space is one ASCII space wherever CLDR asks for a narrow or an unbreakable one.
    """
    draw = np.random.default_rng(SEED)
    meanings: set[Hashable] = set()
    pairs: dict[str, str] = {}  # English to German
    targets: set[str] = set()
    while len(pairs) < count:
        kind = KINDS[len(pairs) % len(KINDS)]
        meaning, write = kind(draw)
        source, target = (" ".join(write(locale).split()) for locale in (ENGLISH, GERMAN))
        if (kind, meaning) not in meanings and source not in pairs and target not in targets:
            meanings.add((kind, meaning))
            targets.add(target)
            pairs[source] = target
    return list(pairs), list(pairs.values())
