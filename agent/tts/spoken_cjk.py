"""Chinese, Japanese and Korean as they are spoken: numbers, money, times, dates, units and signs in the words of the
language.

One set of rules; each language brings its words. Full-width punctuation stays: voices read it as pauses.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from agent.tts.numbers import cardinal, spelled

_N = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_HALF_WIDTH = str.maketrans("０１２３４５６７８９％＋＝＄￥", "0123456789%+=$¥")
_PHONE = re.compile(r"(?<![\d.])(?:\d{2,4}-\d{3,4}-\d{4}|1\d{10})(?!\d)")

_KOREAN_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")
_KOREAN_ONES = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
_KOREAN_COUNTERS = r"시간|시(?!속)|개(?!월)|명|마리|살|잔|병|권|번째|가지"
_CHINESE_COUNTERS = "个|位|次|种|天|本|只|张|条|点|小时|分钟|秒|件|杯|家|名|岁|块|年(?!级)"


@dataclass(frozen=True)
class Script:
    """The words of one language. `{n}` stands for a number, `{a}` and `{b}` for two. `counted` is a pattern of counters
    and how numbers before them are said, with `gap` between."""

    language: str
    year: Callable[[str], str]
    date: str
    hour: str
    minute: str
    minute_of_hour_below_ten: str
    money: Mapping[str, str]
    percent: str
    to: str
    minus: str
    fraction: str
    units: Mapping[str, str]
    signs: Mapping[str, str]
    counted: tuple[str, Callable[[str], str]] | None = None
    gap: str = ""

    def spoken(self, text: str) -> str:
        """`text` without digits and signs that a voice of this language would stumble over. Markdown and emoji must be
        gone already."""
        text = text.translate(_HALF_WIDTH)
        for pattern, become in self._rules:
            text = pattern.sub(become, text)
        return text

    def _say(self, digits: str) -> str:
        return cardinal(digits, self.language)

    def _date(self, match: re.Match[str]) -> str:
        return self.date.format(y=self.year(match[1]), m=self._say(str(int(match[2]))), d=self._say(str(int(match[3]))))

    def _time(self, match: re.Match[str]) -> str:
        hour, minute = match[1], match[2]
        said = self.hour.format(n=self._count(str(int(hour))))
        if minute == "00":
            return said
        form = self.minute_of_hour_below_ten if minute[0] == "0" else self.minute
        return said + form.format(n=self._say(str(int(minute))))

    def _count(self, digits: str) -> str:
        return self.counted[1](digits) if self.counted else self._say(digits)

    @cached_property
    def _rules(self) -> list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]]:
        signs = "".join(map(re.escape, self.money))
        units = "|".join(sorted(map(re.escape, self.units), key=len, reverse=True))
        counters = (
            [(rf"(?<![\d.,第])(\d+)\s?(?={self.counted[0]})", lambda m: self._count(m[1]) + self.gap)]
            if self.counted
            else []
        )
        return [
            (re.compile(pattern), become)
            for pattern, become in (
                (r"(?<![\d-])(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?![\d-])", self._date),
                (r"(?<!\d)(\d{4})(?=\s?[年년])", lambda m: self.year(m[1])),
                (r"(?<![\d:])([01]?\d|2[0-4])[:：]([0-5]\d)(?![:\d])", self._time),
                (_PHONE.pattern, lambda m: spelled(m[0].replace("-", ""), self.language)),
                (rf"([{signs}])\s?({_N})([万億亿만억]?)", lambda m: self.money[m[1]].format(n=self._say(m[2]) + m[3])),
                (rf"({_N})\s?[-~〜～–到]\s?(?=\d)", rf"\1{self.to}"),
                (r"(?<![A-Za-z\d)])[-−](?=\d)", self.minus),
                (rf"({_N})\s?%", lambda m: self.percent.format(n=self._say(m[1]))),
                (
                    r"(?<![\d/])(\d{1,3})/(\d{1,3})(?![\d/])",
                    lambda m: self.fraction.format(a=self._say(m[1]), b=self._say(m[2])),
                ),
                (rf"({_N})\s?({units})(?![A-Za-z])", lambda m: self._say(m[1]) + self.units[m[2]]),
                *counters,
                *((rf"\s?{re.escape(sign)}\s?(?=\d)", word) for sign, word in self.signs.items()),
                (_N, lambda m: self._say(m[0])),
                (r"[\"*`~#^_|\\]", ""),
            )
        ]


def _chinese_count(digits: str) -> str:
    """二 before a measure word is 两."""
    return "两" if digits == "2" else cardinal(digits, "zh")


def _korean_count(digits: str) -> str:
    """Native numbers before counters, up to 99."""
    number = int(digits)
    if not 0 < number < 100:
        return cardinal(digits, "ko")
    tens, ones = divmod(number, 10)
    return "스무" if number == 20 else _KOREAN_TENS[tens] + _KOREAN_ONES[ones]


SCRIPTS: Mapping[str, Script] = {
    "zh": Script(
        language="zh",
        year=lambda digits: spelled(digits, "zh"),
        date="{y}年{m}月{d}日",
        hour="{n}点",
        minute="{n}分",
        minute_of_hour_below_ten="零{n}分",
        money={"¥": "{n}元", "$": "{n}美元", "€": "{n}欧元", "£": "{n}英镑"},
        percent="百分之{n}",
        to="到",
        minus="负",
        fraction="{b}分之{a}",
        units={
            **{
                "km/h": "公里每小时",
                "km": "公里",
                "m": "米",
                "cm": "厘米",
                "mm": "毫米",
                "kg": "公斤",
                "g": "克",
                "ml": "毫升",
                "L": "升",
            },
            **{"°C": "摄氏度", "℃": "摄氏度", "°F": "华氏度", "℉": "华氏度", "°": "度"},
        },
        signs={"+": "加", "=": "等于", "×": "乘以", "÷": "除以", "≈": "约等于"},
        counted=(_CHINESE_COUNTERS, _chinese_count),
    ),
    "ja": Script(
        language="ja",
        year=lambda digits: cardinal(digits, "ja"),
        date="{y}年{m}月{d}日",
        hour="{n}時",
        minute="{n}分",
        minute_of_hour_below_ten="{n}分",
        money={"¥": "{n}円", "$": "{n}ドル", "€": "{n}ユーロ", "£": "{n}ポンド"},
        percent="{n}パーセント",
        to="から",
        minus="マイナス",
        fraction="{b}分の{a}",
        units={
            **{
                "km/h": "キロメートル毎時",
                "km": "キロメートル",
                "m": "メートル",
                "cm": "センチメートル",
                "mm": "ミリメートル",
            },
            **{"kg": "キログラム", "g": "グラム", "ml": "ミリリットル", "L": "リットル"},
            **{"°C": "度", "℃": "度", "°F": "華氏度", "℉": "華氏度", "°": "度"},
        },
        signs={"+": "たす", "=": "は", "×": "かける", "÷": "わる", "≈": "約"},
    ),
    "ko": Script(
        language="ko",
        year=lambda digits: cardinal(digits, "ko"),
        date="{y}년 {m}월 {d}일",
        hour="{n} 시",
        minute=" {n} 분",
        minute_of_hour_below_ten=" {n} 분",
        money={"₩": "{n} 원", "¥": "{n} 엔", "$": "{n} 달러", "€": "{n} 유로", "£": "{n} 파운드"},
        percent="{n} 퍼센트",
        to="에서 ",
        minus="마이너스 ",
        fraction="{b}분의 {a}",
        units={
            **{"km/h": " 킬로미터 매 시", "km": " 킬로미터", "m": " 미터", "cm": " 센티미터", "mm": " 밀리미터"},
            **{"kg": " 킬로그램", "g": " 그램", "ml": " 밀리리터", "L": " 리터"},
            **{"°C": "도", "℃": "도", "°F": " 화씨도", "℉": " 화씨도", "°": "도"},
        },
        signs={"+": " 더하기 ", "=": "는 ", "×": " 곱하기 ", "÷": " 나누기 ", "≈": " 약 "},
        counted=(_KOREAN_COUNTERS, _korean_count),
        gap=" ",
    ),
}
