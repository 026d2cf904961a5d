"""Point 9, second half: what was said is in no file of a run unless it was asked for."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from agent.asr.protocol import Transcript
from agent.cli.explain import explain
from agent.llm.protocol import Finished, Prefill, Token
from agent.settings import Settings, load
from agent.tts.protocol import Patch, Setup
from tests.fakes.talk import Talk, says
from tests.proof.recorded import recorded_talk

HEARD, SAID, THOUGHT = "Geheimnis\u00f6hr 41", "Z\u00fcngelwort 52", "Hirngespinst\u00e4 63"
SECRETS = (HEARD, SAID, THOUGHT)


def forms(secret: str) -> Iterator[bytes]:
    """The secret as it could stand in a file: encoded, escaped, quoted, and each of its words by itself."""
    for text in (secret, *secret.split()[:1], secret.lower(), secret.upper()):
        for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "latin-1", "utf-7"):
            yield text.encode(encoding)
        yield json.dumps(text)[1:-1].encode()
        yield json.dumps(json.dumps(text))[2:-2].encode()
        yield repr(text).encode("ascii", "backslashreplace")[1:-1]
        yield quote(text).encode()
        yield text.encode("utf-8").hex().encode()
        yield text.encode("ascii", "xmlcharrefreplace")
        yield base64.b64encode(text.encode())[: len(text) // 3 * 4]


def leaks(folder: Path) -> list[tuple[str, str]]:
    """The files that hold a secret in any form, and which."""
    texts = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"trace.jsonl", "run.json"} <= texts.keys() and all(texts.values())
    return [(name, s) for name, content in texts.items() for s in SECRETS if any(form in content for form in forms(s))]


def gossip(failing: str | None) -> "object":
    """Engines that hear, think and say the secrets; one of them then fails and quotes what it was given."""

    def prepare(result: Talk) -> None:
        asr, llm, tts = result.engines.asr, result.engines.llm, result.engines.tts
        open_stream, generate, synthesise = asr.open, llm.generate, tts.synthesise

        def opened() -> object:
            stream = open_stream()
            step, finalize = stream.step, stream.finalize

            def told(transcript: Transcript) -> Transcript:
                return replace(transcript, text=HEARD)

            def finalized(*given: object) -> Transcript:
                if failing == "asr":
                    raise RuntimeError(f"cannot decode {HEARD!r}")
                return told(finalize(*given))  # type: ignore[arg-type]

            stream.step = lambda *given: told(step(*given))  # type: ignore[method-assign]
            stream.finalize = finalized  # type: ignore[method-assign]
            return stream

        def generated(messages: object, **more: object) -> Iterator[Prefill | Token | Finished]:
            for item in generate(messages, **more):  # type: ignore[arg-type]
                if failing == "llm" and isinstance(item, Token):
                    raise ValueError(f"prompt {messages!r} is too long, after {THOUGHT}")
                yield replace(item, text=THOUGHT + " ") if isinstance(item, Token) and item.unspoken else item

        def synthesised(text: str, *more: object) -> Iterator[Setup | Patch]:
            if failing == "tts":
                raise KeyError(text)
            yield from synthesise(text, *more)  # type: ignore[arg-type]

        asr.open, llm.generate, tts.synthesise = opened, generated, synthesised  # type: ignore[method-assign,assignment]

    return prepare


def run_of(parent: Path, failing: str | None, settings: Settings) -> Path:
    said = [says("hello"), says("tell me a story", "reply_end", 0.3), says("stop", "reply_start", 0.4)]
    replies = [f"I think it is {SAID}. And that is {SAID}, too."] * 3
    _, folder = recorded_talk(parent, said, replies, settings, gossip(failing))  # type: ignore[arg-type]
    return folder


@pytest.mark.parametrize("failing", [None, "asr", "llm", "tts"])
def test_no_secret_of_transcript_reply_prompt_thought_or_error_is_in_a_default_run(
    tmp_path: Path, failing: str | None
) -> None:
    folder = run_of(tmp_path, failing, load(flags={"llm": {"thinking_tokens": 3}}))
    assert leaks(folder) == []
    told = CliRunner().invoke(explain, [str(folder)])
    assert told.exit_code == 0 and not any(form in told.stdout_bytes for s in SECRETS for form in forms(s))


def test_the_search_finds_what_is_there_once_content_is_asked_for(tmp_path: Path) -> None:
    settings = load(flags={"llm": {"thinking_tokens": 3}, "capture_content": True})
    found = leaks(run_of(tmp_path, None, settings))
    assert found == [("trace.jsonl", HEARD), ("trace.jsonl", SAID)]
    assert ("trace.jsonl", THOUGHT) in leaks(run_of(tmp_path, "llm", settings))


def test_no_text_that_was_set_is_in_a_default_run(tmp_path: Path) -> None:
    """The prompt of the agent, the description of its voice, and what is said in a recording of it."""
    texts = {"llm": {"system_prompt": HEARD}, "tts": {"voice": SAID, "prompt_text": THOUGHT}}
    _, folder = recorded_talk(tmp_path, [says("hello")], settings=load(flags=texts))
    assert leaks(folder) == []
    _, folder = recorded_talk(tmp_path, [says("hello")], settings=load(flags=texts | {"capture_content": True}))
    assert {secret for file, secret in leaks(folder) if file == "run.json"} == set(SECRETS)
