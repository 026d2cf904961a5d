"""What can be changed between two turns of a conversation: the choices, what they are now, and how a choice is made.

A change gives new engines and settings, which `Conversation.change` takes up when the next turn opens. What belongs to
one conversation (the thinking budget, the chunk, the diffusion steps) needs no loading, since the engine that comes of
it shares the model. Another model is loaded once for everybody and therefore marked as shared.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from agent import models
from agent.engine_choice import choose
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.llm.history import SPARE_TOKENS, new_history
from agent.loading import load_asr, load_llm, load_tts
from agent.settings import Settings
from agent.tts.protocol import DiffusionTts
from agent.worker import ThreadWorker, Worker
from profiling.trace.clock import Clock

T = TypeVar("T")
Name = Literal["thinking", "chunk", "diffusion_steps", "recogniser", "model", "voice"]
Stage = Literal["asr", "llm", "tts"]

THINKING = ("off", "32", "128", "on")
DIFFUSION_STEPS = (2, 4, 6, 8, 10, 16)
STAGE_OF: dict[Name, Stage] = {"recogniser": "asr", "model": "llm", "voice": "tts"}
_ONE_OF: dict[Stage, str] = {"asr": "recogniser", "llm": "language model", "tts": "voice"}


@dataclass(frozen=True)
class Toggle:
    """`label` names it for a person, `value` is the choice at hand. `shared` says that a change concerns everybody who
    uses these engines, `needs_loading` that it is made by `load` and not by `apply`. `unavailable` is a sentence: why
    there is nothing to choose."""

    name: Name
    label: str
    choices: tuple[str, ...]
    value: str
    shared: bool = False
    needs_loading: bool = False
    unavailable: str | None = None


def toggles(engines: Engines, settings: Settings) -> list[Toggle]:
    """All of them, the unavailable included. `settings` name a model for every stage."""
    return [_thinking(settings), _chunk(engines, settings), _diffusion_steps(engines), *_models(engines, settings)]


def apply(engines: Engines, settings: Settings, name: str, choice: str) -> tuple[Engines, Settings]:
    """Make a choice that needs no loading. Computes nothing. Raises TurnscopeError for what cannot be chosen."""
    toggle = _checked(engines, settings, name, choice)
    if toggle.needs_loading and choice != toggle.value:
        raise TurnscopeError(f"The {toggle.label} {choice} has to be loaded first.")
    match toggle.name:
        case "thinking":
            return engines, _with_thinking(engines, settings, choice)
        case "chunk":
            asr = engines.asr.with_chunk(int(choice))
            return replace(engines, asr=asr), _with(settings, "asr", chunk_ms=int(choice))
        case "diffusion_steps":
            assert isinstance(engines.tts, DiffusionTts)
            tts = engines.tts.with_diffusion_steps(int(choice))
            return replace(engines, tts=tts), _with(settings, "tts", diffusion_steps=int(choice))
        case _:
            return engines, settings


def load(engines: Engines, settings: Settings, name: str, choice: str, clock: Clock) -> tuple[Engines, Settings]:
    """Make a choice that needs loading: load the model and warm it up, on the thread that serves its stage, and return
    when that is done. It takes seconds: not to be called on an event loop, nor while that stage works on a turn that
    counts. The model before is free when no conversation uses it any more. Raises TurnscopeError for what cannot be
    chosen or loaded; nothing has changed then."""
    toggle = _checked(engines, settings, name, choice)
    if not toggle.needs_loading or choice == toggle.value:
        return apply(engines, settings, name, choice)
    stage = STAGE_OF[toggle.name]
    changed = _with(settings, stage, model=choice)
    kinds = choose(changed)
    match stage:
        case "asr":
            worker: Worker = engines.workers.asr
            asr = _on(worker, lambda: load_asr(changed, kinds, clock))
            _on(worker, asr.warm_up)
            return replace(engines, asr=asr), changed
        case "llm":
            worker, opening = engines.workers.llm, new_history(changed.llm).opening()
            llm = _on(worker, lambda: load_llm(changed, kinds, clock))
            _on(worker, lambda: llm.warm_up(opening))
            return replace(engines, llm=llm), changed
        case "tts":
            worker = engines.workers.tts
            tts = _on(worker, lambda: load_tts(changed, kinds, clock))
            if tts.sample_rate != engines.tts.sample_rate:
                raise TurnscopeError(
                    f"The voice {choice} speaks at {tts.sample_rate} Hz, and a call that goes out at "
                    f"{engines.tts.sample_rate} Hz cannot change to it: start again with --tts {choice}."
                )
            _on(worker, tts.warm_up)
            return replace(engines, tts=tts), changed


def _thinking(settings: Settings) -> Toggle:
    value = _spelt(settings)
    choices = THINKING if value in THINKING else (*THINKING, value)
    return Toggle("thinking", "thinking", choices, value)


def _spelt(settings: Settings) -> str:
    return "off" if not settings.llm.thinks else str(settings.llm.thinking_tokens)


def _chunk(engines: Engines, settings: Settings) -> Toggle:
    sizes = sorted({*engines.asr.chunks_ms, settings.asr.chunk_ms})
    only = f"{engines.asr.model} has chunks of one size." if len(sizes) == 1 else None
    return Toggle("chunk", "chunk (ms)", tuple(map(str, sizes)), str(settings.asr.chunk_ms), unavailable=only)


def _diffusion_steps(engines: Engines) -> Toggle:
    tts = engines.tts
    if not isinstance(tts, DiffusionTts):
        return Toggle("diffusion_steps", "diffusion steps", (), "", unavailable=f"{tts.model} has no diffusion steps.")
    steps = sorted({*DIFFUSION_STEPS, tts.diffusion_steps})
    return Toggle("diffusion_steps", "diffusion steps", tuple(map(str, steps)), str(tts.diffusion_steps))


def _models(engines: Engines, settings: Settings) -> Iterator[Toggle]:
    now = {"asr": engines.asr.model, "llm": engines.llm.model, "tts": engines.tts.model}
    for name, stage in STAGE_OF.items():
        others = [model for model in _stored(stage) if model != now[stage] and _can_run(settings, stage, model)]
        only = (
            None if others else f"This machine has no other {_ONE_OF[stage]}: `turnscope models` lists what there is."
        )
        choices = (now[stage], *others)
        yield Toggle(name, _ONE_OF[stage], choices, now[stage], shared=True, needs_loading=True, unavailable=only)


def _stored(stage: Stage) -> list[str]:
    return [row.name for row in models.list_models() if row.stage == stage and row.present == "yes"]


def _can_run(settings: Settings, stage: Stage, model: str) -> bool:
    """Whether its packages are installed, and the settings are possible with it."""
    try:
        choose(_with(settings, stage, model=model))
    except TurnscopeError:
        return False
    return True


def _checked(engines: Engines, settings: Settings, name: str, choice: str) -> Toggle:
    known = {toggle.name: toggle for toggle in toggles(engines, settings)}
    toggle = next((toggle for key, toggle in known.items() if key == name), None)
    if toggle is None:
        raise TurnscopeError(f"There is no toggle {name!r}: choose {_either(known)}.")
    if choice not in toggle.choices:
        raise TurnscopeError(
            toggle.unavailable or f"The {toggle.label} cannot be {choice!r}: choose {_either(toggle.choices)}."
        )
    return toggle


def _with_thinking(engines: Engines, settings: Settings, choice: str) -> Settings:
    changed = _with(settings, "llm", thinking_tokens=int(choice) if choice.isdigit() else choice)
    llm = changed.llm
    begins = engines.llm.prompt_tokens(new_history(llm).opening())
    thought = llm.thinking_budget(engines.llm.context_tokens)
    if begins + thought + llm.max_tokens + SPARE_TOKENS > engines.llm.context_tokens:
        raise TurnscopeError(
            f"A thought of {thought} tokens and a reply do not fit into the context of {engines.llm.context_tokens} "
            "tokens: choose less."
        )
    return changed


def _with(settings: Settings, section: Stage, **values: object) -> Settings:
    changed = getattr(settings, section).model_copy(update=values)
    return settings.model_copy(update={section: changed})


def _on(worker: Worker, do: Callable[[], T]) -> T:
    """On the worker's thread, where it has one."""
    return worker.run_now(do) if isinstance(worker, ThreadWorker) else do()


def _either(choices: Iterable[str]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last
