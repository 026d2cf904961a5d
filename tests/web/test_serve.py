"""`turnscope serve`: sentences for what cannot be served, and an end in good order."""

import asyncio
import signal
import socket
import sys
import time
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from agent.cli.serve import serve
from agent.cli.serving import Recordings
from agent.errors import TurnscopeError
from agent.scenario import load_scenario
from agent.web.guard import check_address
from agent.web.server import Address, serving, tls_context
from profiling.run import load_run
from profiling.trace.vocabulary import EndReason
from tests.web.pages import House, Page, open_house, run, until
from tests.web.tones import BusyClock, recognise, tone_settings

ROOT = Path(__file__).parents[2]


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(serve, arguments)
    assert isinstance(result.exception, TurnscopeError), result.output
    assert result.exception.exit_code == 2
    return str(result.exception)


def test_others_are_let_in_with_a_token_and_a_certificate_only(tmp_path: Path) -> None:
    nonsense = tmp_path / "x.pem"
    nonsense.write_text("nonsense")
    assert "give --token, --certificate and --key" in refused("--host", "0.0.0.0")
    assert "16 letters" in refused("--token", "short")
    assert "belong together" in refused("--certificate", str(nonsense))
    both = ("--certificate", str(nonsense), "--key", str(nonsense))
    assert "cannot be used" in refused("--host", "0.0.0.0", "--token", "correct-horse-battery", *both)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    for name in [name for name in sys.modules if name.startswith("agent.web.server")]:
        monkeypatch.delitem(sys.modules, name)
    assert "turnscope[web]" in refused()


def test_a_port_in_use_is_said_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use" in refused("--port", str(taken.getsockname()[1]))


def test_ctrl_c_in_a_call_ends_within_three_seconds_and_the_trace_is_whole(tmp_path: Path) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.web.serving_tones", str(tmp_path), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        page = await Page(url).call()
        page.microphone.say("hello")
        await page.told("turn", complete=True)
        async with aiohttp.ClientSession() as session:
            async with session.get(url + page.of("hello")[0]["report"].lstrip("/")) as answer:
                report = await answer.text()
            assert "endpoint wait" in report
            assert "<script" not in report
        page.microphone.say("how are you what time story please")
        await page.told("audible", count=2)
        started_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        assert time.monotonic() - started_s < 3
        assert await process.stdout.read() == b""
        await page.close()
        found = load_run(next(tmp_path.iterdir()))
        assert [turn.end_reason for turn in found.turns] == [EndReason.COMPLETED, EndReason.STOPPED]
        assert found.info is not None
        assert found.info.end is not None
        assert found.warnings == ()

    run(main(), 20)


def test_a_certificate_and_a_token_open_it_to_others(tmp_path: Path) -> None:
    """TLS with the certificate of the test server of the language model's tests."""

    async def main() -> None:
        pem = ROOT / "tests" / "llm" / "localhost.pem"
        tls = tls_context(pem, pem)
        house = House(tmp_path)
        address = Address("0.0.0.0", 0, "correct-horse-battery", tls)
        check_address(address.host, address.token, pem, pem)
        async with serving(house.service(), address) as bound:
            url = f"https://127.0.0.1:{bound.port}/"
            client = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False), cookie_jar=aiohttp.CookieJar(unsafe=True)
            )
            async with client as session:
                async with session.get(url) as answer:
                    assert answer.status == 401
                async with session.get(url + "?token=correct-horse-battery") as answer:
                    assert answer.status == 200
                    assert answer.history[0].cookies["turnscope"]["secure"]
                origin = {"Origin": url.rstrip("/"), "Content-Type": "application/json"}
                async with session.post(url + "offer", data=b"{}", headers=origin) as answer:
                    assert answer.status == 400
        await house.engines.workers.close()

    run(main())


def test_what_callers_say_is_recorded_each_as_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        clock = BusyClock()
        recordings = Recordings("mine", tone_settings(), clock, print)
        async with open_house(tmp_path / "runs", open_recorder=recordings.open) as house:
            for text in ("hello ten", "go on"):
                page = await Page(house.url).call()
                assert "recorded" in page.of("hello")[0]["recording"]
                page.microphone.say(text)
                await page.told("turn", complete=True)
                page.send(type="bye")
                await until(lambda: house.runs[-1].complete is True, 2)
                await page.close()
        recordings.close()
        for name, text in (("mine", "hello ten"), ("mine-2", "go on")):
            scenario = load_scenario(str(tmp_path / "recordings" / name))
            assert scenario.expect_turns == 1
            assert recognise(scenario.utterances[0].recording.samples) == text

    run(main())


def test_a_recording_that_nobody_made_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Recordings("mine", tone_settings(), BusyClock(), print).close()
    assert not list((tmp_path / "recordings").iterdir())
