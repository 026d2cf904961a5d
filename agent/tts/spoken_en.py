"""English as it is spoken: numbers, money, times, dates, units, abbreviations, addresses and signs become words.

Three lists of rules, each rule a pattern and what it becomes, applied in order: the most specific first. A rule leaves
digits for later rules where it can ("10-20 km" -> "10 to 20 km" -> "ten to twenty kilometers").
"""

import re
from collections.abc import Callable, Iterable

from agent.tts import numbers_en
from agent.tts.numbers import cardinal, ordinal, year
from agent.tts.words_en import (
    ABBREVIATIONS,
    COUNTED_BY_ROMAN,
    CURRENCIES,
    FILE_KINDS,
    MONTHS,
    REIGNED_BY_ROMAN,
    SIGNS,
    TOP_DOMAINS,
    UNITS,
    VULGAR_FRACTIONS,
)

_LONGEST_PATH = 20  # characters of a URL's path that are worth reading


def spoken(text: str) -> str:
    """`text` without marks that a voice would stumble over. Markdown and emoji must be gone already."""
    rules = [*_WORD_RULES, *_NUMBER_RULES, *_SIGN_RULES] if _HAS_NUMBER.search(text) else [*_WORD_RULES, *_SIGN_RULES]
    for pattern, become in rules:
        text = pattern.sub(become, text)
    return text


def _email(match: re.Match[str]) -> str:
    name = match[1].replace(".", " dot ").replace("_", " underscore ").replace("-", " dash ")
    return f"{name} at {match[2].replace('.', ' dot ')}"


def _url(match: re.Match[str]) -> str:
    """The host, and the path when it is short and made of words."""
    address = match["address"].rstrip(".,;:!?)]'\"/")
    host, _, path = address.partition("/")
    said = host.removeprefix("www.").replace(".", " dot ")
    if path and len(path) <= _LONGEST_PATH and re.fullmatch(r"[A-Za-z/-]+", path):
        said += "".join(f" slash {part.replace('-', ' ')}" for part in path.split("/") if part)
    return said + match["address"][len(address) :].lstrip("/")


def _abbreviation(match: re.Match[str]) -> str:
    return numbers_en.short_form(ABBREVIATIONS[match[0].lower()], match)


def _initials(match: re.Match[str]) -> str:
    return numbers_en.short_form(match[0].replace(".", ""), match)


def _any(words: Iterable[str]) -> str:
    """A pattern for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_Become = str | Callable[[re.Match[str]], str]


def _compiled(*rules: tuple[str, _Become]) -> list[tuple[re.Pattern[str], _Become]]:
    return [(re.compile(pattern), become) for pattern, become in rules]


_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_MONTH = rf"(?P<month>{_any(MONTHS)})"
_YEAR = r"(?:1[1-9]|20)\d\d"
_SIGN = _any([sign for sign in CURRENCIES if not sign.isalpha()])
_CODE = _any([code for code in CURRENCIES if code.isalpha()])
_SCALE = r"(?:\s?(?P<scale>thousand|million|billion|trillion|bn|[kKmMbB])\b)?"
_UNIT = _any(UNITS)
_HALF = r"(?P<half>[ap]\.m\.|[aApP][mM]\b)"
_HAS_NUMBER = re.compile(rf"[\d{''.join(VULGAR_FRACTIONS)}]")

_WORD_RULES = _compiled(
    (r"[’‘]", "'"),
    (r"\]\([^)\s]*\)?", ""),  # a link that lost its beginning
    (r"([\w.+-]+)@([\w-]+(?:\.[\w-]+)+)", _email),
    (r"(?:https?://|(?=www\.))(?P<address>\S+)", _url),
    (rf"\b(?P<address>[\w-]+(?:\.[\w-]+)*\.(?:{TOP_DOMAINS})\b(?:/\S*)?)", _url),
    (rf"\b([\w-]+)\.({FILE_KINDS})\b", r"\1 dot \2"),
    (r"(?<!\w)[:;][-']?[()DPpOo|/\\](?!\w)", ""),  # :-)
    (r"\bN[oO]s?\.\s?(?=\d)", "number "),
    (rf"(?i:\b(?:{_any(ABBREVIATIONS)}))(?!\w)", _abbreviation),
    (r"\bSt\.\s(?=[A-Z])", "Saint "),
    (r"(?<=[a-z]\s)St\.", "Street"),
    (r"\b(?:[A-Z]\.){2,}", _initials),
    (rf"\b(?P<name>{COUNTED_BY_ROMAN})\s(?P<roman>[IVX]{{1,5}})\b(?!')", numbers_en.roman),
    (rf"\b(?P<name>{_any(REIGNED_BY_ROMAN)})\s(?P<roman>[IVX]{{2,5}}|V)\b", numbers_en.roman),
    (r"\band/or\b", "and or"),
)

_NUMBER_RULES = _compiled(
    (r"(?<![\d/.-])(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?![\d/-])", numbers_en.numeric_date),
    (r"(?<![\d/.-])(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})(?![\d/])", numbers_en.numeric_date),
    (rf"\b{_MONTH}\.?\s{_DAY}(?:st|nd|rd|th)?\b(?:,?\s(?P<year>\d{{4}})\b)?(?!:)", numbers_en.named_date),
    (
        rf"(?:\b[Tt]he\s)?(?<![\d.,-])\b{_DAY}(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}\b\.?(?:,?\s(?P<year>\d{{4}})\b)?",
        numbers_en.named_date,
    ),
    (r"(?<=\d:\d\d)\s?[–-]\s?(?=\d{1,2}:\d\d)", " to "),
    (rf"(?<![\d:.])(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?!:?\d)(?:\s?{_HALF})?", numbers_en.time_of_day),
    (rf"(?<![\d:.,])(?P<hour>1[0-2]|0?[1-9])(?P<minute>)\s?{_HALF}", numbers_en.time_of_day),
    (r"(?<![\w.])\+\d{1,3}(?:[ .-]?\(?\d{2,4}\)?){2,5}(?!\w)", numbers_en.phone),
    (r"(?<![\w.-])(?:\(\d{3}\)\s?|\d{3}[ .-])?\d{3}[.-]\d{4}(?![\w-])", numbers_en.phone),
    (r"(?<![\w.])\.(?=\d)", "0."),
    (r"(?<=\d)\s[-–−]\s(?=\d)", " minus "),
    (rf"(?<=\d)\s?[–-]\s?(?={_SIGN})", " to "),
    (rf"(?<![\w)])[-−](?=\d|{_SIGN})", "minus "),
    (rf"(?P<sign>{_SIGN})(?P<code>)\s?(?P<amount>{_NUMBER}){_SCALE}", numbers_en.money),
    (rf"(?<!\w)(?P<amount>{_NUMBER}){_SCALE}\s?(?:(?P<sign>[€£])|(?P<code>{_CODE})\b)", numbers_en.money),
    (rf"({_NUMBER})\s?%", r"\1 percent"),
    (r"(?<![\d.])\d+(?:\.\d+){2,}(?!\w)", lambda match: match[0].replace(".", " point ")),
    (f"[{''.join(VULGAR_FRACTIONS)}]", lambda match: f" {VULGAR_FRACTIONS[match[0]]}"),
    (
        r"(?<![\w/.])(?:(?P<whole>\d+)\s)?(?P<above>\d{1,3})\s?[/⁄]\s?(?P<below>\d{1,3})(?![\w/])",
        numbers_en.fraction,
    ),
    (rf"(?<![\w.-])({_NUMBER})\s?[–-]\s?(?=\d)(?!\d+-)", r"\1 to "),
    (r"(?<!\w)(?:(?P<long>(?:1[1-9]|20)\d0)|(?:(?<=the )|')(?P<short>\d0))'?s\b", numbers_en.decade),
    (r"(\d)'(\d{1,2})\"?(?!\w)", r"\1 foot \2"),
    (
        rf"(?<![A-Za-z\d.])(?P<number>{_NUMBER})[\s-]?(?P<unit>{_UNIT})(?:/(?P<per>{_UNIT}))?(?![\w²³])",
        numbers_en.quantity,
    ),
    (r"(?<=\d)\s?x\s?(?=\d)", " by "),
    (r"(?<=\d)x\b", " times"),
    (r"\b(\d{1,12})(?:st|nd|rd|th)\b", lambda match: ordinal(int(match[1]))),
    (rf"(?<![\w.,]){_YEAR}(?!\w|[.,]\d| by )", lambda match: year(int(match[0]))),
    (r"#(?=\d)", "number "),
)

_SIGN_RULES = _compiled(
    (r"/\s?(?=(?:second|minute|hour|day|week|month|year|person|user|night|unit)\b)", " per "),
    (r"\b([CF])#", r"\1 sharp"),
    (r"#(?=\w)", "hashtag "),
    *((sign, f" {word} ") for sign, word in SIGNS),
    (rf"(?<![A-Za-z\d.]){_NUMBER}(?![A-Za-z\d])", lambda match: cardinal(match[0])),
    (_NUMBER, lambda match: f" {cardinal(match[0])} "),
    (r"(?<=[a-z])/(?=[a-z])", " or "),
    (r"\s*—\s*|(?:^|\s+)[–-]{1,3}(?:\s+|$)|--+", ", "),
    (r"\s*\(\s*", ", "),
    (r"\s*\)(?=\s*(?:[,.;:!?]|$))", ""),
    (r"\s*\)", ","),
    (r"…", "..."),
    (r"[\"“”«»\[\]{}\\*`~#^]", ""),
    (r"[_|/]", " "),
)
