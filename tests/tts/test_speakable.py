"""Speakable text: markdown, emoji, numbers and signs in four languages."""

import random

import pytest

from agent.tts.speakable import speakable

ENGLISH = {
    # markdown
    "**Bold** and *it* and `code`.": "Bold and it and code.",
    "# A title\nSome text.": "A title. Some text.",
    "- eggs\n- milk": "eggs. milk",
    "\n2. Buy milk.": "two, Buy milk.",
    "> quoted\n> words": "quoted. words",
    "See [the docs, here](http://x.y/z) now.": "See the docs, here now.",
    "![a cat](cat.png) sits.": "a cat sits.",
    "~~old~~ new": "old new",
    "| City | People |\n|---|---|\n| Rome | 3 |\n": "City, People. Rome, three",
    "Try this:\n```python\nprint(1)\n```": "Try this: code example",
    "a <b>big</b> dog": "a big dog",
    "---": "",
    "snake_case_name": "snake case name",
    # fragments with unbalanced marks
    " **still bold and": "still bold and",
    " end of bold** here": "end of bold here",
    " `code": "code",
    " [a link](http://": "a link",
    " text](http://x.y) too": "text too",
    " - five of them": "five of them",
    # emoji
    "Great! 👍🏽 ❤️ 👨‍👩‍👧 Yes.": "Great! Yes.",
    "Hi :-) there ;)": "Hi there",
    "😀": "",
    # numbers
    "It is 3.5 or 3.14.": "It is three point five or three point one four.",
    "1,234,567 people": "one million two hundred and thirty-four thousand five hundred and sixty-seven people",
    "agent 007": "agent zero zero seven",
    "about .5": "about zero point five",
    "It is -5 now.": "It is minus five now.",
    "the 1st, 22nd and 100th": "the first, twenty-second and one hundredth",
    "GPT-4, 3D and H2O": "GPT-four, three D and H two O",
    "version 3.11.2": "version three point eleven point two",
    "3x faster": "three times faster",
    "1920x1080": "one thousand nine hundred and twenty by one thousand and eighty",
    # money and percent
    "It costs $3.50.": "It costs three dollars and fifty cents.",
    "$1, $1.01, $0.05": "one dollar, one dollar and one cent, five cents",
    "$3.5 million or €20": "three point five million dollars or twenty euros",
    "20 €, 5 USD, £1, ¥1000": "twenty euros, five US dollars, one pound, one thousand yen",
    "$20-$30 and -$5": "twenty dollars to thirty dollars and minus five dollars",
    "$5/month": "five dollars per month",
    "5% or 12.5 %": "five percent or twelve point five percent",
    # times and dates
    "at 10:30, 10:05 am and 10:00": "at ten thirty, ten oh five AM and ten o'clock",
    "14:00 or 5pm": "fourteen hundred or five PM",
    "We meet at 7 p.m.": "We meet at seven PM.",
    "10:30-11:00": "ten thirty to eleven o'clock",
    "on 2026-11-30": "on November thirtieth, twenty twenty-six",
    "on 30 November 2026": "on the thirtieth of November, twenty twenty-six",
    "Nov. 30, 2026 and May 3": "November thirtieth, twenty twenty-six and May third",
    "on 11/30/2026": "on November thirtieth, twenty twenty-six",
    "in 1999, the 1990s and the '90s": "in nineteen ninety-nine, the nineteen nineties and the nineties",
    # units, ranges, fractions
    "10 km, 1 kg and 5 °C": "ten kilometers, one kilogram and five degrees Celsius",
    "72°F at 100 km/h": "seventy-two degrees Fahrenheit at one hundred kilometers per hour",
    "5-10 km": "five to ten kilometers",
    "pages 3–5": "pages three to five",
    "1/2 cup, 3/4 cup, 2½ cups": "one half cup, three quarters cup, two and a half cups",
    "5'10\" tall": "five foot ten tall",
    # telephone
    "Call 555-123-4567.": "Call five five five, one two three, four five six seven.",
    "+1 555 123 4567": "plus one, five five five, one two three, four five six seven",
    # short forms
    "Dr. Smith, e.g. cats, i.e. dogs, etc.": "Doctor Smith, for example cats, that is dogs, et cetera.",
    "St. Paul lives on Main St. now": "Saint Paul lives on Main Street now",
    "No. 5 in the U.S. now": "number five in the US now",
    "I live in the U.S.": "I live in the US.",
    "World War II and Henry VIII": "World War two and Henry the eighth",
    "Part I; I think so.": "Part one; I think so.",
    "he/she and/or TCP/IP": "he or she and or TCP IP",
    # addresses
    "See https://www.example.com/docs, ok?": "See example dot com slash docs, ok?",
    "Go to foo.com or edit main.py.": "Go to foo dot com or edit main dot py.",
    "Mail bob.s@example.com!": "Mail bob dot s at example dot com!",
    # signs
    "2 + 2 = 4": "two plus two equals four",
    "5 * 3, 5*3, 3 × 4": "five times three, five times three, three times four",
    "6 - 2 < 5": "six minus two is less than five",
    "x² and A → B & C": "x squared and A to B and C",
    "#1, #fun, C++ and C#": "number one, hashtag fun, C plus plus and C sharp",
    "~5 or 50°": "about five or fifty degrees",
    # punctuation
    "I can — if you want (really) — help.": "I can, if you want, really, help.",
    "“Quoted” text’s": "Quoted text's",
    "Well... yes… no": "Well. yes. no",
    "  two   spaces \n": "two spaces",
    "": "",
    "Nothing to change here, is there?": "Nothing to change here, is there?",
}
CHINESE = {
    "今天25度，降水概率80%。": "今天二十五度，降水概率百分之八十。",
    "最高3.5°C，最低-5°C": "最高三点五摄氏度，最低负五摄氏度",
    "2026年11月30日10:30": "二零二六年十一月三十日十点三十分",
    "2026-11-30 10:05": "二零二六年十一月三十日 十点零五分",
    "一共¥120，或$5。": "一共一百二十元，或五美元。",
    "2个苹果，12个梨，第2个": "两个苹果，十二个梨，第二个",
    "10-20公里，5 km": "十到二十公里，五公里",
    "**重要**：打13812345678！😀": "重要：打一三八一二三四五六七八！",
    "1/2，10005，1,234,567": "二分之一，一万零五，一百二十三万四千五百六十七",
    "100000000，100010001，20": "一亿，一亿零一万零一，二十",
    "- 第一项\n- 第二项": "第一项。 第二项",
    "2 + 3 = 5": "二加三等于五",
}
JAPANESE = {
    "気温は25℃、確率は80%です。": "気温は二十五度、確率は八十パーセントです。",
    "10:30に3.5kmを走る。": "十時三十分に三点五キロメートルを走る。",
    "2026-11-30、¥1,200です": "二千二十六年十一月三十日、千二百円です",
    "1/2と0度": "二分の一とゼロ度",
}
KOREAN = {
    "기온은 25도, 80%입니다.": "기온은 이십오도, 팔십 퍼센트입니다.",
    "10:30에 3.5km를": "열 시 삼십 분에 삼 점 오 킬로미터를",
    "사과 3개와 20명, 12개": "사과 세 개와 스무 명, 열두 개",
    "₩5,000, 2026년 11월": "오천 원, 이천이십육년 십일월",
}
TABLE = [
    (language, text, spoken)
    for language, table in (("en", ENGLISH), ("zh", CHINESE), ("ja", JAPANESE), ("ko", KOREAN))
    for text, spoken in table.items()
]


@pytest.mark.parametrize(("language", "text", "spoken"), TABLE)
def test_table(language: str, text: str, spoken: str) -> None:
    assert speakable(text, language) == spoken


@pytest.mark.parametrize(("language", "text", "spoken"), TABLE)
def test_speakable_text_is_left_alone(language: str, text: str, spoken: str) -> None:
    assert speakable(spoken, language) == spoken


def test_the_letters_tell_the_language() -> None:
    assert speakable("今天25度", "en") == "今天二十五度"
    assert speakable("気温は25度", "en") == "気温は二十五度"
    assert speakable("기온은 25도", "en") == "기온은 이십오도"
    assert speakable("東京25度", "ja") == "東京二十五度"
    assert speakable("It is 5 km.", "en-US") == "It is five kilometers."


def test_another_language_loses_markup_and_keeps_numbers() -> None:
    assert speakable("Il y a **25** chats 🐈.", "fr") == "Il y a 25 chats."


@pytest.mark.parametrize("language", ["en", "zh", "ja", "ko", "fr"])
def test_any_text_is_survived(language: str) -> None:
    generator = random.Random(language)
    characters = "aZ019 .,:;-–—/*_`#[]()<>|~^+=%$€£¥°²½@&'\"\\\n😀你はカ가。，々"
    pieces = [*characters, "://", "**", "10:30", "km", "St.", "th", "```\n"]
    for _ in range(300):
        text = "".join(generator.choice(pieces) for _ in range(generator.randint(0, 40)))
        spoken = speakable(text, language)
        assert spoken == spoken.strip()
        assert not set("*`|\n") & set(spoken)


def test_long_numbers_are_read_digit_by_digit() -> None:
    assert speakable("9" * 30).split() == ["nine"] * 30
    assert speakable("9" * 30 + ".5").split()[-2:] == ["point", "five"]
    assert speakable("9" * 5000 + "th").split()[0] == "nine"
