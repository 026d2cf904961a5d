"""Phrases: where a growing reply is cut, and that nothing is lost or depends on the tokens."""

import random
import re

import pytest

from agent.tts.phrases import Limits, Phrase, PhraseCutter


def tokens(text: str) -> list[str]:
    """Words with the space before them, as language models emit them; single characters of CJK text."""
    return re.findall(r"[\u3040-\u30ff\u3400-\u9fff]|\s*[^\s\u3040-\u30ff\u3400-\u9fff]+|\s+", text)


def cut(pieces: list[str]) -> list[str]:
    cutter = PhraseCutter()
    phrases = [phrase for piece in pieces for phrase in cutter.push(piece)] + cutter.flush()
    assert [phrase.index for phrase in phrases] == list(range(len(phrases)))
    return [phrase.text for phrase in phrases]


CASES = {
    "first clause": (
        "If you like, I can look up the weather for tomorrow.",
        ["If you like,", " I can look up the weather for tomorrow."],
    ),
    "first sentence": ("Yes. It is raining in London today.", ["Yes.", " It is raining in London today."]),
    "no boundary": (
        "The number of people living in the city of Paris is growing every year.",
        ["The number of people living", " in the city of Paris is growing every year."],
    ),
    "one word before a comma is too short": (
        "Sure, I can help you with that today.",
        ["Sure, I can help you", " with that today."],
    ),
    "decimal": ("It weighs 3.5 kg, more or less.", ["It weighs 3.5 kg,", " more or less."]),
    "thousands": ("About 1,000 people came, they say.", ["About 1,000 people came,", " they say."]),
    "time": ("It opens at 10:30, I think.", ["It opens at 10:30,", " I think."]),
    "abbreviation": ("Dr. Smith is here. He is early.", ["Dr. Smith is here.", " He is early."]),
    "example": ("Some fruit, e.g. apples, is sweet.", ["Some fruit,", " e.g. apples, is sweet."]),
    "initials": ("The U.S. Army is large. It is old.", ["The U.S. Army is large.", " It is old."]),
    "unknown abbreviation": ("It is ca. five years old. Really.", ["It is ca. five years old.", " Really."]),
    "morning": ("We meet at 10 a.m. Please come.", ["We meet at 10 a.m.", " Please come."]),
    "number": ("See No. 5 of the list. Thanks.", ["See No. 5 of the list.", " Thanks."]),
    "date": ("On Nov. 30, 2026, it ends.", ["On Nov. 30, 2026,", " it ends."]),
    "year at the end": ("That was in 2024. Then it rained.", ["That was in 2024.", " Then it rained."]),
    "address": ("See https://a.b/c?d=1,2 there. Bye now.", ["See https://a.b/c?d=1,2 there.", " Bye now."]),
    "ellipsis": ("Well... it depends, I would say.", ["Well... it depends,", " I would say."]),
    "dash": ("That depends — as always — on you.", ["That depends —", " as always — on you."]),
    "hyphen is no dash": ("A well-known, old song.", ["A well-known,", " old song."]),
    "minus is no dash": ("So 5 - 3 is 2. Easy, right?", ["So 5 - 3 is 2.", " Easy, right?"]),
    "bold": ("**One, two, three** go. Now run.", ["**One, two, three** go.", " Now run."]),
    "bold sentence": ("**This is it.** Now you know it.", ["**This is it.**", " Now you know it."]),
    "code span": ("Use `a, b. C` here. It works well.", ["Use `a, b. C` here.", " It works well."]),
    "link": ("See [this, that](http://x.y) too. It helps.", ["See [this, that](http://x.y) too.", " It helps."]),
    "star is no markup": ("So 5 * 3 is 15, and that is it.", ["So 5 * 3 is 15,", " and that is it."]),
    "quotation": ('"Come in," she said. He came in.', ['"Come in,"', " she said. He came in."]),
    "list": (
        "Here you go:\n\n1. Buy eggs now.\n2. Go home again.",
        ["Here you go:", "\n\n1. Buy eggs now.", "\n2. Go home again."],
    ),
    "code block": (
        "Like this:\n```python\nprint('a, b. C')\n\nx = 1\n```\nThat is all.",
        ["Like this:", "\n```python\nprint('a, b. C')\n\nx = 1\n```", "\nThat is all."],
    ),
    "table row": (
        "The list:\n| Paris, in France | 3 |\n| Rome, in Italy | 5 |\n",
        ["The list:", "\n| Paris, in France | 3 |", "\n| Rome, in Italy | 5 |", "\n"],
    ),
    "names stay whole": (
        "You really should see Mary Ann Smith Jones when you go there.",
        ["You really should see", " Mary Ann Smith Jones when you go there."],
    ),
    "number and unit stay whole": (
        "They always run about another thirty 5 km laps in there.",
        ["They always run", " about another thirty 5 km laps in there."],
    ),
    "emoji": ("Great! 😊 Let us go now.", ["Great!", " 😊 Let us go now."]),
    "later phrases are longer": (
        "Yes. I said so, I meant it, and I would say it again, to you and to all the others. No. Never.",
        ["Yes.", " I said so, I meant it, and I would say it again,", " to you and to all the others.", " No. Never."],
    ),
    "Chinese": (
        "你好，我可以帮你查天气。今天最高3.5度，请注意保暖！再见。",
        ["你好，我可以帮你查天气。", "今天最高3.5度，请注意保暖！", "再见。"],
    ),
    "Chinese clause": ("我明白了，我们现在就开始吧。", ["我明白了，", "我们现在就开始吧。"]),
    "Chinese number": ("一共３，０００元，谢谢你。", ["一共３，０００元，", "谢谢你。"]),
    "Chinese without marks": (
        "我们可以在明天早上去公园的湖边看一看那些美丽候鸟然后再回家",
        ["我们可以在明天早上去公园的", "湖边看一看那些美丽候鸟然后再回家"],
    ),
    "Japanese": (
        "はい、今日の東京は晴れです。最高気温は25度です。",
        ["はい、今日の東京は晴れです。", "最高気温は25度です。"],
    ),
    "Japanese quotation": (
        "「傘は要りません。」と言えます。以上です。",
        ["「傘は要りません。」と言えます。", "以上です。"],
    ),
    "Korean": (
        "네, 오늘 서울은 맑습니다. 기온은 25도이고, 바람이 붑니다.",
        ["네, 오늘 서울은 맑습니다.", " 기온은 25도이고, 바람이 붑니다."],
    ),
    "nothing to say first": ("---\n\nHello there, my friend.", ["---\n\nHello there,", " my friend."]),
    "nothing": ("", []),
    "only marks": ("...", ["..."]),
}


@pytest.mark.parametrize("name", CASES)
def test_cuts(name: str) -> None:
    text, phrases = CASES[name]
    assert cut(tokens(text)) == phrases


@pytest.mark.parametrize("name", CASES)
def test_phrases_do_not_depend_on_the_tokens(name: str) -> None:
    text, phrases = CASES[name]
    generator = random.Random(name)
    for _ in range(20):
        pieces: list[str] = []
        rest = text
        while rest:
            length = generator.randint(0, 6)
            pieces.append(rest[:length])
            rest = rest[length:]
        assert cut(pieces) == phrases


def test_any_text_is_kept_whole() -> None:
    generator = random.Random(7)
    alphabet = "aB1 ,.!?:;-—…\n*_`[]()|#\"'“”$%你好，。！「」はをカ가 나.\u3000😊é"
    for _ in range(300):
        text = "".join(generator.choice(alphabet) for _ in range(generator.randint(0, 200)))
        whole = cut([text])
        assert "".join(whole) == text
        assert cut(list(text)) == whole
        assert all(any(c.isalnum() for c in phrase) for phrase in whole[:-1])


def commit(text: str) -> int:
    """The number of tokens after which the first phrase is complete."""
    cutter = PhraseCutter()
    return next(number for number, token in enumerate(tokens(text), 1) if cutter.push(token))


def test_the_first_proving_token_commits() -> None:
    assert commit("If you like, I can help.") == 4  # the space of the token after the comma
    assert commit("It is late. Good night.") == 4  # the capital after the period
    assert commit("Really now? Good night.") == 3
    assert commit("我明白了，我们走。") == 5  # the comma itself
    assert commit("你好。我们走。") == 3
    assert commit("Here it is:\nOne") == 4  # the line break


def test_a_long_code_block_is_not_slow_to_read() -> None:
    cutter = PhraseCutter()
    block = "```\n" + "value = compute(value, 1)  # again, and again.\n" * 60
    assert cutter.push("Like this:\n" + block) == [Phrase("Like this:", 0)]
    rest = cutter.push("```\nDone with it. Bye") + cutter.flush()
    assert [phrase.text for phrase in rest] == ["\n" + block + "```", "\nDone with it.", " Bye"]


def test_unclosed_markup_stops_the_voice_for_a_while_only() -> None:
    text = "Look at **this, and that, " + "and then the next one, " * 12 + "and so on."
    assert len(cut([text])) > 2


def test_limits_can_be_chosen() -> None:
    cutter = PhraseCutter(first=Limits(sentence_words=1, clause_words=1, most_words=20))
    assert [phrase.text for phrase in cutter.push("Sure, I can help.")] == ["Sure,"]
