"""What a server shows, made by hand: a call's greeting, and a turn of which every figure is known."""

from collections.abc import Sequence

from agent.web.messages import (
    Choice,
    Delta,
    Hello,
    Said,
    Says,
    State,
    Toggles,
    ToggleState,
    ToPage,
    Transcript,
    TurnShown,
    WaterfallRow,
)

PARTS_S = {"endpoint.wait": 0.22, "asr.finalize": 0.1, "llm.prefill": 0.05, "llm.first_phrase": 0.06}
LABELS = {
    "endpoint.wait": "endpoint wait",
    "asr.finalize": "final transcript",
    "llm.prefill": "LLM prefill",
    "llm.thinking": "LLM thinking",
    "llm.first_phrase": "LLM first phrase",
    "tts.first_patch": "voice first patch",
    "playout.leading_silence": "leading silence",
    "host": "host (our code)",
}
HEARD_NOTE = "jitter buffer 32 ms, output 30 ms"
VOICE_S, SILENCE_S, HOST_S = 0.15, 0.02, 0.0036


def toggle_states(thinking: str = "off", shared: bool = False) -> Toggles:
    together = "Two people are in a call and share this model; it can be changed when one of them has hung up."
    return Toggles(
        [
            ToggleState("thinking", "thinking", thinking, _choices("off", "16", "32", "64"), False, None),
            ToggleState(
                "chunk", "chunk (ms)", "320", _choices("160", "320", "640"), True, together if shared else None
            ),
            ToggleState("diffusion_steps", "diffusion steps", "", [], False, "Piper has no diffusion steps."),
            ToggleState(
                "voice",
                "voice",
                "piper",
                [Choice("piper", "piper"), Choice("voxcpm", "voxcpm", "its model is not on this machine.")],
                False,
                None,
            ),
        ]
    )


def _choices(*values: str) -> list[Choice]:
    return [Choice(value, value) for value in values]


def greeting(session: str = "a-session", said: Sequence[Said] = ()) -> list[ToPage]:
    models = {"asr": "moonshine-tiny", "llm": "smollm2-135m", "tts": "piper"}
    return [Hello(session, "run", "/report/run", models, list(said)), State("listening", None, 1, 3), toggle_states()]


def words(turn: int, said: str, reply: list[str]) -> list[ToPage]:
    """What is sent while a turn goes on."""
    return [Transcript(turn, said, True), *(Says(turn, phrase) for phrase in reply)]


def turn_shown(
    turn: int = 1,
    *,
    thinking_s: float = 0.0,
    before_s: float | None = None,
    heard_s: float | None = None,
    complete: bool = True,
    ended: str = "completed",
    heard_text: str = "",
) -> TurnShown:
    """A turn with a latency of 0.6036 s and what it thought; `before_s` is what the turn before it thought."""
    parts = [*PARTS_S.items(), ("tts.first_patch", VOICE_S), ("playout.leading_silence", SILENCE_S), ("host", HOST_S)]
    if thinking_s:
        parts.insert(3, ("llm.thinking", thinking_s))
    rows = [WaterfallRow("asr.partial", "partial transcript", "work", -0.3, -0.22, 0.0)]
    rows.append(WaterfallRow("endpoint.vad", "voice detector", "work", 0.02, 0.06, 0.0))
    at_s = 0.0
    for name, part_s in parts:
        kind = {"endpoint.wait": "wait", "playout.leading_silence": "wait", "host": "host"}.get(name, "work")
        rows.append(WaterfallRow(name, LABELS[name], kind, at_s, at_s + part_s, part_s))
        at_s += part_s
    rows.append(WaterfallRow("llm.decode", "LLM rest of reply", "work", at_s - 0.17, at_s + 0.4, 0.0))
    if heard_s is not None:
        rows.append(WaterfallRow("heard", "network and browser", "network", at_s, at_s + heard_s, heard_s, HEARD_NOTE))
    change_s = None if before_s is None else thinking_s - before_s
    deltas = [Delta("latency", "latency", at_s, change_s)]
    deltas.append(Delta("endpoint", "endpoint", 0.22, None if change_s is None else 0.0))
    deltas.append(Delta("LLM", "LLM", 0.11 + thinking_s, change_s))
    llm_ms = 110 + thinking_s * 1000
    return TurnShown(
        turn=turn,
        complete=complete,
        latency_s=at_s,
        ended=ended,
        breakdown=f"{at_s * 1000:.0f} ms: endpoint 220, ASR 100, LLM {llm_ms:.0f}, voice 150, playout 20, ours 4",
        rows=rows,
        deltas=deltas,
        settings={"thinking": "32" if thinking_s else "off", "chunk (ms)": "320", "voice": "piper"},
        changed=["thinking"] if before_s is not None and bool(thinking_s) != bool(before_s) else [],
        heard_text=heard_text,
        report="/report/run",
        heard_after_s=None if heard_s is None else at_s + heard_s,
        heard_error_s=None if heard_s is None else 0.0006,
    )
