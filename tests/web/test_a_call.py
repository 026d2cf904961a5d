"""Calls over WebRTC, from the offer to the trace: two peers in one process, engines of tones, real time."""

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from agent import toggles
from agent.engines import Engines
from agent.settings import Settings
from agent.web import heard
from agent.web.line import CLOSE_S, GONE_S
from agent.web.messages import HeardReport
from profiling.run import load_run
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason
from tests.web.pages import Page, RefusedCall, open_house, post, run, until
from tests.web.tones import recognise


def test_what_is_said_is_understood_answered_drawn_and_heard(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            page = await Page(house.url).call()
            page.microphone.say("hello how are you")
            first = await page.told("turn", complete=False)
            audible = page.of("audible")[0]
            assert first["page_s"] * 1e3 - audible["at_ms"] < 1000
            assert {row["name"] for row in first["rows"]} >= {"endpoint.wait", "llm.prefill", "tts.first_patch"}
            last = await page.told("turn", complete=True)
            assert page.of("transcript", final=True)[0]["text"] == "hello how are you"
            assert page.of("says")[0]["text"].startswith("Okay hello")
            assert recognise(page.heard, 48_000) == "okay hello how are you"
            assert last["latency_s"] == pytest.approx(first["latency_s"], abs=0.001)
            assert sum(row["on_path_s"] for row in last["rows"] if row["kind"] != "network") == pytest.approx(
                last["latency_s"], abs=1e-6
            )
            assert last["heard_after_s"] - last["latency_s"] == pytest.approx(0.04, abs=0.03)
            assert last["heard_error_s"] == 0.0005
            status, _ = await post(house.url, "bye", {"session": page.session})
            assert status == 204
            await until(lambda: house.runs[0].complete is True, 2)
            await page.close()
        turn = load_run(house.runs[0].writer.folder).turns[0]
        assert turn.end_reason is EndReason.COMPLETED
        assert turn.attributes[v.TURN_HEARD_ERROR_S] == 0.0005
        assert turn.attributes[v.TURN_HEARD_NS] > (turn.first_audio_ns or 0)
        assert house.notes == []

    run(main())


def test_a_tenth_of_the_packets_may_be_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            page = await Page(house.url).call()
            page.lose(0.1)
            page.microphone.say("what time please go on ten")
            assert (await page.told("transcript", final=True))["text"] == "what time please go on ten"
            assert (await page.told("turn", complete=True))["latency_s"] < 1.5
            await page.close()

    run(main())


def test_three_callers_hear_each_their_own_and_a_fourth_is_refused_politely(tmp_path: Path) -> None:
    said = ("hello red", "what time green", "story please ten go")

    async def main() -> None:
        async with open_house(tmp_path) as house:
            pages = [await Page(house.url).call() for _ in said]
            with pytest.raises(RefusedCall) as refused:
                await Page(house.url).call()
            assert refused.value.status == 503
            assert refused.value.answer["full"] is True
            assert "All 3 lines are taken" in refused.value.answer["error"]
            for page, text in zip(pages, said, strict=True):
                page.microphone.say(text)
            for page, text in zip(pages, said, strict=True):
                await page.told("turn", complete=True)
                assert [message["text"] for message in page.of("transcript", final=True)] == [text]
                assert recognise(page.heard, 48_000) == f"okay {text}"
                assert page.of("state")[-1]["callers"] == 3
            shared = [item for item in page.of("toggles")[-1]["items"] if item["shared"]]
            assert all(item["reason"] for item in shared)
            page.send(type="toggle", name=shared[0]["name"], value=shared[0]["value"])
            assert "Others are in a call" in (await page.told("notice"))["text"]
            await asyncio.gather(*(page.close() for page in pages))
            await until(lambda: all(one.complete for one in house.runs), 2)
        runs = [load_run(one.writer.folder) for one in house.runs]
        assert [len(one.turns) for one in runs] == [1, 1, 1]
        assert len({one.turns[0].conversation_id for one in runs}) == 3
        for one in runs:
            assert one.turns[0].attributes[v.TURN_HEARD_WORDS] == one.turns[0].attributes[v.TURN_REPLY_WORDS]
        assert sorted(one.turns[0].attributes[v.TURN_REPLY_WORDS] for one in runs) == [3, 4, 5]
        asked = [messages[-1].content for messages in house.engines.llm.asked]
        assert sorted(asked) == sorted(said)

    run(main())


def test_a_choice_holds_from_the_next_turn_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            page = await Page(house.url).call()
            page.microphone.say("hello")
            before = await page.told("turn", complete=True)
            page.send(type="toggle", name="chunk", value="560")
            await until(
                lambda: "560" in [i["value"] for i in page.of("toggles")[-1]["items"] if i["name"] == "chunk"], 2
            )
            page.microphone.say("go on")
            after = await page.told("turn", turn=2, complete=True)
            assert before["changed"] == []
            assert after["changed"] == ["chunk (ms)"]
            assert after["deltas"][0]["change_s"] == pytest.approx(after["latency_s"] - before["latency_s"])
            page.send(type="toggle", name="nothing", value="1")
            assert "no toggle" in (await page.told("notice"))["text"]
            await page.close()

    run(main())


def test_the_report_of_a_call_is_there_at_once_and_no_other_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house, aiohttp.ClientSession() as session:
            page = await Page(house.url).call()
            async with session.get(house.url + page.of("hello")[0]["report"].lstrip("/")) as answer:
                assert answer.status == 200
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            for name in ("nothing", "%2e%2e%2fcall", "..%2f..%2fetc"):
                async with session.get(URL(house.url + "report/" + name, encoded=True)) as answer:
                    assert answer.status == 404
            await page.close()

    run(main())


def test_the_conversation_outlasts_the_line(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            first = await Page(house.url).call()
            first.microphone.say("hello")
            await first.told("turn", complete=True)
            first.vanish()
            second = await Page(house.url, first.session).call()
            assert second.session == first.session
            hello = second.of("hello")[0]
            assert [(one["who"], one["text"]) for one in hello["said"]] == [("user", "hello"), ("agent", "Okay hello.")]
            second.microphone.say("go on")
            assert (await second.told("turn", complete=True))["turn"] == 2
            assert [message.content for message in house.engines.llm.asked[-1]][-3:] == [
                "hello",
                "Okay hello.",
                "go on",
            ]
            assert len(house.runs) == 1
            second.vanish()
            await until(lambda: house.runs[0].complete is True, 3)
            third = await Page(house.url, first.session).call()
            assert len(third.of("hello")[0]["said"]) == 4
            assert len(house.runs) == 2
            await first.close()
            await second.close()
            await third.close()

    run(main())


def test_a_caller_that_vanishes_in_the_middle_of_a_turn_is_gone_within_two_seconds(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            await asyncio.sleep(0.1)
            before = asyncio.all_tasks()
            page = await Page(house.url).call()
            page.microphone.say("hello how are you what time story please")
            await page.told("audible")
            page.vanish()
            gone_s = time.monotonic()
            assert GONE_S + CLOSE_S < 2
            await until(lambda: house.runs[0].complete is True, 3)
            await page.close()
            await until(lambda: asyncio.all_tasks() <= before, 3 - (time.monotonic() - gone_s))
            assert [turn.end_reason for turn in house.runs[0].turns] == [EndReason.STOPPED]

    run(main())


def test_calls_leave_nothing_behind(tmp_path: Path) -> None:
    def used() -> tuple[int, int]:
        own = [one for one in threading.enumerate() if not one.name.startswith("asyncio_")]  # its pool may still grow
        return len(list(Path("/proc/self/fd").iterdir())), len(own)

    async def main() -> None:
        async with open_house(tmp_path) as house:
            counts = []
            for _ in range(8):
                page = await Page(house.url).call()
                page.send(type="bye")
                await until(lambda: house.runs[-1].complete is True, 2)
                await page.close()
                await asyncio.sleep(0.05)
                counts.append((*used(), len(asyncio.all_tasks())))
            assert max(counts[4:]) <= max(counts[1:4])

    run(main())


def test_another_model_is_loaded_for_everybody_while_nobody_else_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, loaded = threading.Event(), threading.Event()

    def found(engines: Engines, settings: Settings) -> list[toggles.Toggle]:
        return [toggles.Toggle("model", "language model", ("fake-llm", "other"), engines.llm.model, True, True)]

    def load(engines: Engines, settings: Settings, name: str, choice: str, clock: Clock) -> tuple[Engines, Settings]:
        loading.set()
        assert loaded.wait(5)
        return replace(engines, llm=replace(engines.llm, model=choice)), settings

    monkeypatch.setattr(toggles, "toggles", found)
    monkeypatch.setattr(toggles, "load", load)

    async def main() -> None:
        async with open_house(tmp_path) as house:
            page = await Page(house.url).call()
            await page.told("toggles")
            page.send(type="toggle", name="model", value="other")
            await until(loading.is_set, 2)
            await until(lambda: "being loaded" in (page.of("toggles")[-1]["items"][0]["reason"] or ""), 2)
            with pytest.raises(RefusedCall) as refused:
                await Page(house.url).call()
            assert "being loaded" in refused.value.answer["error"]
            page.send(type="toggle", name="model", value="fake-llm")
            assert "being loaded" in (await page.told("notice"))["text"]
            loaded.set()
            await until(lambda: page.of("toggles")[-1]["items"][0]["value"] == "other", 2)
            other = await Page(house.url).call()
            assert other.of("hello")[0]["models"]["llm"] == "other"
            page.microphone.say("hello")
            assert (await page.told("turn", complete=True))["settings"] == {"language model": "other"}
            await page.close()
            await other.close()

    run(main())


def test_what_cannot_have_been_heard_is_not_joined() -> None:
    def joined(heard_ms: float, error_ms: float = 1.0) -> bool:
        report = HeardReport(1, heard_ms - 50_000.0, 50_000.0, error_ms)
        return heard.join(report, Turn("c", 1, 0), 10_000_000_000, 10_500_000_000)

    assert joined(10_080.0)
    assert joined(9_999.5)
    assert not joined(9_990.0)
    assert not joined(12_000.0)
    assert not joined(10_080.0, error_ms=501.0)
    turn = Turn("c", 1, 0)
    assert heard.join(HeardReport(1, 10_080.0, 0, 1, 29.0, 30.0), turn, 10_000_000_000, 10_500_000_000)
    assert not heard.join(HeardReport(1, 10_090.0, 0, 1), turn, 10_000_000_000, 10_500_000_000)
    assert turn.attributes[v.TURN_HEARD_NS] == 10_080_000_000
    assert turn.attributes[v.TURN_HEARD_JITTER_BUFFER_S] == 0.029
    assert turn.attributes[v.TURN_HEARD_OUTPUT_S] == 0.03
