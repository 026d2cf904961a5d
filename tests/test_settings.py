"""Where settings come from, which source wins, and what a wrong one says."""

from pathlib import Path

import pytest

from agent.errors import TurnscopeError
from agent.settings import DEFAULT_HANGOVER_S, load


def test_flags_go_before_the_environment_before_the_file_before_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[asr]\nchunk_ms = 80\nthreads = 2\n[llm]\nseed = 4\nmax_tokens = 50\n")
    monkeypatch.setenv("TURNSCOPE_ASR__CHUNK_MS", "640")
    monkeypatch.setenv("TURNSCOPE_LLM__SEED", "5")
    settings = load(file, {"llm": {"seed": 6, "max_tokens": None}})
    assert (settings.asr.chunk_ms, settings.asr.threads) == (640, 2)
    assert (settings.llm.seed, settings.llm.max_tokens, settings.llm.thinking_tokens) == (6, 50, 0)
    assert load().asr.threads == 1


@pytest.mark.parametrize("mode", DEFAULT_HANGOVER_S)
def test_the_hangover_follows_the_mode_unless_it_is_given(mode: str) -> None:
    assert load(flags={"endpoint": {"mode": mode}}).endpoint.effective_hangover_s == DEFAULT_HANGOVER_S[mode]  # type: ignore[index]
    assert load(flags={"endpoint": {"mode": mode, "hangover_s": 0.3}}).endpoint.effective_hangover_s == 0.3


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"asr": {"threads": 0}}, r"asr\.threads .* greater than or equal to 1 \(got 0\)"),
        ({"asr": {"threads": 257}}, r"asr\.threads .* less than or equal to 256"),
        ({"asr": {"chunks": 1}}, r"asr\.chunks .* no such setting"),
        ({"endpoint": {"mode": "never"}}, r"endpoint\.mode .* 'hangover', 'smart-turn'"),
        ({"endpoint": {"hangover_s": 2.0}}, "hangover_s 2.0 is longer than max_hangover_s 1.2"),
        (
            {"llm": {"thinking_tokens": -5}},
            r"setting llm\.thinking_tokens is not valid: .*greater than or equal to 0, or 'on' or 'off' \(got -5\)\.$",
        ),
        ({"llm": {"thinking_tokens": "maybe"}}, r"llm\.thinking_tokens is .*integer.*, or 'on' or 'off' .got 'maybe'"),
        ({"language": "xx"}, "language"),
    ],
)
def test_a_setting_that_cannot_be_is_named(flags: dict[str, object], sentence: str) -> None:
    with pytest.raises(TurnscopeError, match=sentence):
        load(flags=flags)


def test_a_broken_file_is_named_with_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[asr]\nchunk_ms = = 3\n")
    with pytest.raises(TurnscopeError, match=r"settings\.toml is not valid TOML: .*line 2, column 12"):
        load(file)
    with pytest.raises(TurnscopeError, match=r"absent\.toml cannot be read: No such file"):
        load(tmp_path / "absent.toml")


def test_a_broken_environment_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSCOPE_ASR", "{")
    with pytest.raises(TurnscopeError, match="asr"):
        load()


def test_content_is_private_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not load().capture_content
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    assert load().capture_content
    assert not load(flags={"capture_content": False}).capture_content


def test_a_misspelt_environment_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURNSCOPE_ASR_CHUNK_MS", "TURNSCOPE_ASR__CHUNKS", "TURNSCOPE_FOO"):
        monkeypatch.setenv(name, "1")
        with pytest.raises(TurnscopeError, match=f"no setting for {name}"):
            load()
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNSCOPE_DEBUG", "1")
    assert load().asr.chunk_ms == 320


@pytest.mark.parametrize("text", ["x = " + "9" * 5_000, "x = " + "[" * 5_000, "\ufeffx = = 1"])
def test_a_hostile_file_is_a_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TurnscopeError, match="not valid TOML"):
        load(file)
    with pytest.raises(TurnscopeError, match="not a file"):
        load(Path("/dev/zero"))


def test_thinking_may_be_a_number_on_or_off_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.toml"
    for text, budget in (("7", 7), ("0", 0), ("'off'", 0), ("'on'", 1024)):
        file.write_text(f"[llm]\nthinking_tokens = {text}\n")
        llm = load(file).llm
        assert (llm.thinking_budget(2048), llm.thinks) == (budget, budget > 0)
        monkeypatch.setenv("TURNSCOPE_LLM__THINKING_TOKENS", text.strip("'"))
        assert load().llm.thinking_budget(2048) == budget
        monkeypatch.delenv("TURNSCOPE_LLM__THINKING_TOKENS")


@pytest.mark.parametrize("text", ["[llm]\napi_key = 12345678", "[[llm]]\napi_key = '12345678'", "llm = '12345678'"])
def test_a_servers_key_is_never_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(TurnscopeError, match=r"The setting llm(\.api_key)? is not valid: ") as raised:
        load(file)
    assert "12345678" not in str(raised.value)


def test_what_was_given_is_known_from_what_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[tts]\nguidance = 2.0\n")
    monkeypatch.setenv("TURNSCOPE_ASR__FLUSH", "true")
    settings = load(file, {"llm": {"seed": 0, "draft": None}, "tts": {"voice": None}})
    given = settings.asr.model_fields_set, settings.llm.model_fields_set, settings.tts.model_fields_set
    assert given == ({"flush"}, {"seed"}, {"guidance"})
