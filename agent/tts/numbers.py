"""Numbers in words, by num2words where it knows the language, with the little that it lacks."""

from functools import lru_cache

from num2words import num2words

_CHINESE_DIGITS = "零一二三四五六七八九"
_CHINESE_UNITS = ("", "十", "百", "千")
_CHINESE_MYRIADS = ("", "万", "亿", "兆")
_DIGIT_LANGUAGES = ("en", "ja", "ko")
_LONGEST = 15  # digits; what is longer is an identifier and read digit by digit
_POINT = {"en": "point", "zh": "点", "ja": "点", "ko": "점"}


@lru_cache(maxsize=4096)
def cardinal(digits: str, language: str = "en") -> str:
    """Words for "1,234", "3.50" or "007" (read digit by digit); the digits themselves for a language without words
    here."""
    whole, point, decimals = digits.replace(",", "").partition(".")
    is_code = (len(whole) > 1 and whole[0] == "0" and not point) or len(whole) > _LONGEST
    said = spelled(whole, language) if is_code else _integer(int(whole), language)
    if not point:
        return said
    gap = " " if language in ("en", "ko") else ""
    return f"{said}{gap}{_POINT.get(language, '.')}{gap}{spelled(decimals, language)}"


def spelled(digits: str, language: str = "en") -> str:
    """Digit by digit."""
    gap = " " if language in ("en", "ko") else ""
    return gap.join(_integer(int(digit), language) for digit in digits)


@lru_cache(maxsize=256)
def ordinal(number: int) -> str:
    """English only: "twenty-first"."""
    return num2words(number, lang="en", to="ordinal").replace(",", "")


@lru_cache(maxsize=256)
def year(number: int) -> str:
    """English only: "nineteen oh-five", "twenty twenty-six"."""
    return num2words(number, lang="en", to="year").replace(",", "")


def _integer(number: int, language: str) -> str:
    if language == "zh":
        return _chinese(number)
    if language == "ja" and number == 0:
        return "ゼロ"
    return num2words(number, lang=language).replace(",", "") if language in _DIGIT_LANGUAGES else str(number)


def _chinese(number: int) -> str:
    """Mandarin in simplified characters, in groups of four digits; one 零 stands for a run of zeros inside."""
    if number == 0:
        return _CHINESE_DIGITS[0]
    groups: list[str] = []
    rest = number
    for myriad in _CHINESE_MYRIADS:
        rest, group = divmod(rest, 10_000)
        if group:
            gap = _CHINESE_DIGITS[0] if group < 1000 and rest else ""
            groups.append(gap + _chinese_group(group) + myriad)
        elif groups and rest and not groups[-1].startswith(_CHINESE_DIGITS[0]):
            groups.append(_CHINESE_DIGITS[0])
    said = "".join(reversed(groups))
    return said[1:] if said.startswith("一十") else said


def _chinese_group(group: int) -> str:
    said = ""
    for power in (3, 2, 1, 0):
        digit = group // 10**power % 10
        if digit:
            said += _CHINESE_DIGITS[digit] + _CHINESE_UNITS[power]
        elif said and not said.endswith(_CHINESE_DIGITS[0]) and group % 10**power:
            said += _CHINESE_DIGITS[0]
    return said
