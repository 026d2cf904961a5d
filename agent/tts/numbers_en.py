"""English numbers in context: what dates, times, money, fractions, units and the like become. Each function takes a
rule's match."""

import re

from agent.tts.numbers import cardinal, ordinal, spelled, year
from agent.tts.words_en import CURRENCIES, FRACTIONS, MONTHS, REIGNED_BY_ROMAN, UNITS

_MONTHS_IN_ORDER = list(dict.fromkeys(MONTHS.values()))
_SCALES = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion"}
_ROMAN = {"I": 1, "V": 5, "X": 10}


def named_date(match: re.Match[str]) -> str:
    """`month` (a name), `day`, `year` or None. A match that starts with its day is read as "the third of May"."""
    month, day = MONTHS[match["month"]], ordinal(int(match["day"]))
    day_first = match.start("day") < match.start("month")
    said = f"the {day} of {month}" if day_first else f"{month} {day}"
    return f"{said}, {year(int(match['year']))}" if match["year"] else said


def numeric_date(match: re.Match[str]) -> str:
    """`month`, `day`, `year` in digits; unchanged where they are no date."""
    month, day = int(match["month"]), int(match["day"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match[0]
    return f"{_MONTHS_IN_ORDER[month - 1]} {ordinal(day)}, {year(int(match['year']))}"


def time_of_day(match: re.Match[str]) -> str:
    """`hour`, `minute` (may be empty), `half`: am, a.m., PM ... or None."""
    hour, minute, half = match["hour"].lstrip("0") or "0", match["minute"] or "00", match["half"]
    if half:
        said = _hour_and_minute(hour, minute) if minute != "00" else cardinal(hour)
        return f"{said} {half[0].upper()}M{_final_period(match)}"
    if minute != "00":
        return _hour_and_minute(hour, minute)
    if hour == "0":
        return "midnight"
    return f"{cardinal(hour)} o'clock" if int(hour) <= 12 else f"{cardinal(hour)} hundred"


def _hour_and_minute(hour: str, minute: str) -> str:
    return f"{cardinal(hour)} {'oh ' + cardinal(minute[1]) if minute[0] == '0' else cardinal(minute)}"


def short_form(said: str, match: re.Match[str]) -> str:
    """`said` for a short form whose period also ends the text, if it does."""
    return said + _final_period(match)


def _final_period(match: re.Match[str]) -> str:
    return "." if match[0].endswith(".") and not match.string[match.end() :].strip() else ""


def phone(match: re.Match[str]) -> str:
    groups = re.findall(r"\d+", match[0])
    return ("plus " if match[0][0] == "+" else "") + ", ".join(spelled(group) for group in groups)


def money(match: re.Match[str]) -> str:
    """`sign` or `code`, `amount`, `scale` or None."""
    one, many, cent, cents = CURRENCIES[match["sign"] or match["code"]]
    amount, scale = match["amount"].replace(",", ""), match["scale"]
    if scale:
        return f"{cardinal(amount)} {_SCALES.get(scale.lower(), scale)} {many}"
    whole, _, part = amount.partition(".")
    if part and (len(part) != 2 or not cent):
        return f"{cardinal(amount)} {many}"
    said = f"{cardinal(whole)} {one if whole == '1' else many}"
    if part in ("", "00"):
        return said
    change = f"{cardinal(str(int(part)))} {cent if part == '01' else cents}"
    return change if whole == "0" else f"{said} and {change}"


def fraction(match: re.Match[str]) -> str:
    """`whole` or None, `above`, `below`."""
    whole, above, below = match["whole"], int(match["above"]), int(match["below"])
    if (above, below) == (24, 7):
        return "twenty-four seven"
    if not 0 < above < below <= 100:
        return f"{f'{whole} ' if whole else ''}{above} over {below}"
    one, many = FRACTIONS.get(below, (ordinal(below), f"{ordinal(below)}s"))
    if not whole:
        return f"{cardinal(str(above))} {one if above == 1 else many}"
    return f"{cardinal(whole)} and {f'a {one}' if above == 1 else f'{cardinal(str(above))} {many}'}"


def quantity(match: re.Match[str]) -> str:
    """`number`, `unit`, `per` (a second unit) or None."""
    one, many = UNITS[match["unit"]]
    per = f" per {UNITS[match['per']][0]}" if match["per"] else ""
    return f"{cardinal(match['number'])} {one if match['number'] == '1' else many}{per}"


def decade(match: re.Match[str]) -> str:
    number = match["long"] or match["short"]
    said = year(int(number)) if len(number) == 4 else cardinal(number)
    return said[:-1] + "ies" if said.endswith("y") else said + "s"


def roman(match: re.Match[str]) -> str:
    """`name` and `roman`, a numeral of I, V and X."""
    values = [_ROMAN[letter] for letter in match["roman"]]
    total = sum(-value if value < max(values[index:]) else value for index, value in enumerate(values))
    return f"{match['name']} {'the ' + ordinal(total) if match['name'] in REIGNED_BY_ROMAN else cardinal(str(total))}"
