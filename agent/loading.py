"""Loads the engines that the settings name, each on a worker of its own, and warms them up.

The model libraries take seconds to import, which commands that need no engine do not pay: each is imported here, where
its engine is made.
"""

import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent import apology, devices, models
from agent.asr.protocol import AsrEngine
from agent.engine_choice import SMART_TURN_MODEL, VAD_MODEL, Choice, choose, needed_models
from agent.engines import Engines, Workers
from agent.errors import TurnscopeError
from agent.limits import WarmUp, bounds
from agent.llm.history import SPARE_TOKENS, new_history
from agent.llm.protocol import LlmEngine, Message
from agent.models.chosen import asr_model, llm_file, tts_folder
from agent.settings import LlmSettings, Settings
from agent.tts.protocol import TtsEngine
from agent.worker import ThreadWorker
from profiling.trace.clock import Clock, seconds


def load_engines(settings: Settings, clock: Clock, tell: Callable[[str], None]) -> Engines:
    """Load and warm up everything; `tell` is called with what is being done. The settings name a model for every stage
    (`engine_choice.with_models`).

    Raises TurnscopeError when a model is absent, damaged or of the wrong kind, or a reply does not fit the context.
    """
    choice = choose(settings)
    _require_files(settings, choice)
    workers = {name: ThreadWorker(name, clock) for name in ("asr", "smart-turn", "llm", "tts")}
    try:
        return _load(settings, choice, clock, tell, workers)
    except BaseException:
        for worker in workers.values():
            worker.stop()
        raise


def _load(
    settings: Settings,
    choice: Choice,
    clock: Clock,
    tell: Callable[[str], None],
    workers: Mapping[str, ThreadWorker],
) -> Engines:
    """Each engine on the thread that will serve it, since libraries keep state by thread."""
    from agent.listening.smart_turn import SmartTurn
    from agent.listening.vad import SileroVad
    from agent.tts.speakable import speakable

    tell("loading the recogniser")
    vad = SileroVad(models.locate(VAD_MODEL) / "silero_vad.onnx")
    smart_turn = None
    if settings.endpoint.asks_smart_turn:
        smart_turn = SmartTurn(models.locate(SMART_TURN_MODEL) / "smart_turn.onnx")
    asr = workers["asr"].run_now(lambda: load_asr(settings, choice, clock))
    tell("loading the language model")
    llm = workers["llm"].run_now(lambda: load_llm(settings, choice, clock))
    opening = new_history(settings.llm).opening()
    _require_room(settings.llm, llm, opening)
    tell("loading the voice")
    tts = workers["tts"].run_now(lambda: load_tts(settings, choice, clock))
    tell("warming up")
    asr_s = workers["asr"].run_now(lambda: _seconds_of(asr.warm_up, clock))
    llm_s = workers["llm"].run_now(lambda: _seconds_of(lambda: llm.warm_up(opening), clock))
    workers["tts"].run_now(tts.warm_up)
    speakable("Warm 1 up.", settings.language)
    said = speakable(apology.TEXT, settings.language)
    items = workers["tts"].run_now(lambda: list(tts.synthesise(said, lambda: False)))
    tts_s = max((seconds(item.end_ns - item.start_ns) for item in items), default=0.0)
    limits = bounds(
        settings.limits,
        WarmUp(asr_s, llm_s, tts_s),
        llm_reentrant=choice.llm == "http",  # a llama.cpp context and VoxCPM2's caches take one call at a time
        tts_reentrant=choice.tts == "piper",
    )
    for name, worker in workers.items():
        worker.bound = limits[name]
    return Engines(
        vad, smart_turn, asr, llm, tts, Workers(*workers.values()), apology.Apology.of(items, tts.sample_rate)
    )


def _seconds_of(warm_up: Callable[[], None], clock: Clock) -> float:
    start_ns = clock.now_ns()
    warm_up()
    return seconds(clock.now_ns() - start_ns)


def _require_files(settings: Settings, choice: Choice) -> None:
    """All that is missing is told before the first model loads: the big ones take their time."""
    failures: dict[str, TurnscopeError] = {}
    for name in needed_models(settings):
        try:
            models.locate(name)
        except TurnscopeError as error:
            failures[name] = error
    if len(failures) == 1:
        raise next(iter(failures.values()))
    if failures:
        raise TurnscopeError(
            f"The models {' and '.join(failures)} are not on this machine, or damaged: run `turnscope models fetch "
            f"{' '.join(failures)}`."
        )
    files = {
        "a .nemo file": choice.asr_path,
        "a GGUF file": choice.llm_path,
        "the GGUF file of what drafts": settings.llm.draft if choice.llm == "llama" else None,
    }
    for what, path in files.items():
        if path is not None and not stat.S_ISREG(_mode(path, what)):
            raise TurnscopeError(f"{path} is no file: give the path of {what}.")
    folder = "a folder with a VoxCPM2 checkpoint"
    if choice.tts_path is not None and not stat.S_ISDIR(_mode(choice.tts_path, folder)):
        raise TurnscopeError(f"{choice.tts_path} is no folder: give the path of {folder}.")


def _mode(path: Path, what: str) -> int:
    """Which kind of file it is."""
    try:
        return path.stat().st_mode
    except FileNotFoundError as error:
        raise TurnscopeError(f"There is no {path}: give the path of {what}.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TurnscopeError(f"{path} cannot be read ({reason}): give the path of {what}.") from error


def _require_room(settings: LlmSettings, llm: LlmEngine, opening: Sequence[Message]) -> None:
    """A thought and a reply of full length have room beside what every conversation begins with."""
    thought = settings.thinking_budget(llm.context_tokens)
    begins = llm.prompt_tokens(opening)
    if begins + thought + settings.max_tokens + SPARE_TOKENS <= llm.context_tokens:
        return
    if begins + SPARE_TOKENS >= llm.context_tokens:
        raise TurnscopeError(
            f"The start of every conversation takes {begins} tokens and tags up to {SPARE_TOKENS}, which leaves no "
            f"room for a reply in the context of {llm.context_tokens} tokens: raise llm.context_tokens as far as the "
            "model allows, or shorten llm.system_prompt."
        )
    lower = "--thinking or --max-tokens" if thought else "--max-tokens"
    raise TurnscopeError(
        f"A reply of {settings.max_tokens} tokens {f'after a thought of {thought} tokens ' if thought else ''}does not "
        f"fit into the context of {llm.context_tokens} tokens, of which the start of every conversation takes {begins} "
        f"and tags up to {SPARE_TOKENS}: lower {lower}, or raise llm.context_tokens as far as the model allows."
    )


def load_asr(settings: Settings, choice: Choice, clock: Clock) -> AsrEngine:
    """On the calling thread, cold. Raises TurnscopeError as `load_engines` does."""
    asr, name = settings.asr, str(settings.asr.model)
    if choice.asr == "nemotron":
        from agent.asr.nemotron import NemotronEngine

        return NemotronEngine(
            asr_model(settings),
            name=None if choice.asr_path else name,
            chunk_ms=asr.chunk_ms,
            language=asr.language,
            device=settings.device,
            threads=asr.threads,
            mode=asr.mode,
            clock=clock,
        )
    from agent.asr.moonshine import MoonshineEngine

    return MoonshineEngine(
        asr_model(settings), name=name, threads=asr.threads, chunk_ms=asr.chunk_ms, language=asr.language, clock=clock
    )


def load_llm(settings: Settings, choice: Choice, clock: Clock) -> LlmEngine:
    """On the calling thread, cold. Raises TurnscopeError as `load_engines` does."""
    llm, name = settings.llm, str(settings.llm.model)
    if choice.llm == "http":
        from agent.llm.http import HttpLlmEngine

        return HttpLlmEngine(
            name,
            model=llm.server_model,
            api_key=llm.api_key.get_secret_value() if llm.api_key else None,
            context_tokens=llm.context_tokens,
            temperature=llm.temperature,
            seed=llm.seed,
            clock=clock,
        )
    from agent.llm.llama import LlamaEngine

    return LlamaEngine(
        llm_file(settings),
        name=None if choice.llm_path else name,
        context_tokens=llm.context_tokens,
        threads=llm.threads,
        prefill_threads=llm.prefill_threads or llm.threads,
        gpu_layers=llm.gpu_layers,
        main_gpu=devices.number(settings.device),
        thinking=llm.thinks,
        flash_attention=llm.flash_attention,
        batch_tokens=llm.batch_tokens,
        micro_batch_tokens=llm.micro_batch_tokens,
        swa_full=llm.swa_full,
        draft=llm.draft,
        draft_tokens=llm.draft_tokens,
        temperature=llm.temperature,
        seed=llm.seed,
        clock=clock,
    )


def load_tts(settings: Settings, choice: Choice, clock: Clock) -> TtsEngine:
    """On the calling thread, cold. Raises TurnscopeError as `load_engines` does."""
    tts, name = settings.tts, str(settings.tts.model)
    if choice.tts == "voxcpm":
        from agent.tts.voxcpm import VoxCpmEngine

        return VoxCpmEngine(
            tts_folder(settings),
            name=None if choice.tts_path else name,
            device=settings.device,
            threads=tts.threads,
            diffusion_steps=tts.diffusion_steps,
            guidance=tts.guidance,
            voice=tts.voice,
            reference_wav=tts.reference_wav,
            prompt_wav=tts.prompt_wav,
            prompt_text=tts.prompt_text,
            seed=tts.seed,
            compiled=tts.compiled,
            max_patches=tts.max_patches,
            normalize=tts.normalize,
            clock=clock,
        )
    from agent.tts.piper import PiperEngine

    return PiperEngine(tts_folder(settings), name=name, threads=tts.threads, phonemizer=tts.phonemizer, clock=clock)
