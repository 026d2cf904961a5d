"""`turnscope what-if`: a run's turns with something otherwise, evaluated again from what causes what."""

from collections.abc import Sequence
from pathlib import Path

import click

from agent.cli import consoles
from agent.cli.explain import RUNS, newest_run
from agent.cli.explaining import surroundings_of
from agent.cli.quantity_option import Quantity
from agent.errors import TurnscopeError
from profiling.changes.change import Change, ChangeRefused
from profiling.changes.recogniser import AsrChunk
from profiling.changes.roofline import Bandwidth, ComputeRate
from profiling.changes.thinking import ThinkingTokens
from profiling.changes.voice import DiffusionSteps, FewerPatches, FirstPatchShare
from profiling.changes.waits import Hangover, NoEndpointWait
from profiling.changes.weight_format import WeightFormat
from profiling.quantities import BANDWIDTH, COMPUTE, COUNT, MILLISECONDS, TOKENS
from profiling.report.what_if import print_what_if
from profiling.run import Run, load_run
from profiling.run_evidence import load_evidence
from profiling.trace.timeline import Turn
from profiling.turn import counts
from profiling.what_if import what_if as evaluate


@click.command("what-if")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--turn", "number", type=click.IntRange(min=1), help="Only this turn; without it, medians over all.")
@click.option("--quant", metavar="FORMAT", help="The language model's weights in another format, as in Q8_0.")
@click.option("--bandwidth", type=Quantity(BANDWIDTH, "RATE"), help="Another memory, as in 905GB/s.")
@click.option("--flops", type=Quantity(COMPUTE, "RATE"), help="Another arithmetic, as in 31.8TFLOP/s.")
@click.option("--thinking", type=Quantity(TOKENS, "TOKENS"), help="So many unspoken tokens in every turn, as in 80.")
@click.option("--chunk", type=Quantity(MILLISECONDS, "TIME"), help="Another chunk of the recogniser, as in 320ms.")
@click.option("--diffusion-steps", type=Quantity(COUNT, "STEPS"), help="Another number per patch of the voice.")
@click.option("--first-patch", type=click.FloatRange(0, 100, min_open=True), metavar="%", help="Its size, as in 50.")
@click.option("--fewer-patches", type=click.IntRange(min=1), metavar="N", help="So many less before playback.")
@click.option("--hangover", type=Quantity(MILLISECONDS, "TIME"), help="Another silence that ends a turn.")
@click.option("--no-endpoint-wait", is_flag=True, help="As if the end of speech were known at once.")
def what_if(
    run: str,
    number: int | None,
    quant: str | None,
    bandwidth: float | None,
    flops: float | None,
    thinking: float | None,
    chunk: float | None,
    diffusion_steps: float | None,
    first_patch: float | None,
    fewer_patches: int | None,
    hangover: float | None,
    no_endpoint_wait: bool,
) -> None:
    """Say what a run's latency would have been, had something been otherwise; several changes count together.

    RUN is a run folder, its run.json or its trace.jsonl; without one, the newest folder under ./runs.
    """
    if hangover is not None and no_endpoint_wait:
        raise TurnscopeError("--hangover and --no-endpoint-wait exclude each other: leave one of them out.")
    console, notes = consoles.output(), consoles.notes()
    loaded = load_run(newest_run(RUNS) if run == "latest" else Path(run))
    flushed = _flushed(loaded)
    asked: list[Change | None] = [
        None if thinking is None else ThinkingTokens(round(thinking)),
        None if chunk is None else AsrChunk(_more_than_nothing(chunk, "--chunk"), flushed),
        None if diffusion_steps is None else DiffusionSteps(round(diffusion_steps)),
        None if first_patch is None else FirstPatchShare(first_patch / 100),
        None if fewer_patches is None else FewerPatches(fewer_patches),
        None if hangover is None else Hangover(hangover),
        NoEndpointWait() if no_endpoint_wait else None,
        None if quant is None else WeightFormat(quant),
        None if bandwidth is None else Bandwidth(bandwidth),
        None if flops is None else ComputeRate(flops),
    ]
    changes = [change for change in asked if change is not None]
    if not changes:
        raise TurnscopeError("Say what would be otherwise: --thinking 80, --quant Q8_0, ... (see --help).")
    found = load_evidence(loaded.folder)
    for sentence in (*loaded.warnings, *found.warnings):
        consoles.note(notes, sentence)
    try:
        result = evaluate(
            loaded.turns,
            changes,
            found.evidence,
            only=_chosen(loaded.turns, number),
            surroundings=surroundings_of(loaded.turns, found, loaded.info),
        )
    except ChangeRefused as refused:
        raise TurnscopeError(str(refused)) from None
    print_what_if(console, result, number)


def _chosen(turns: Sequence[Turn], number: int | None) -> Turn | None:
    """Raises TurnscopeError when there is no such turn, or it has no latency."""
    if number is None:
        return None
    if number > len(turns):
        raise TurnscopeError(f"There is no turn {number}: the run has {len(turns)}.")
    if not counts(turns[number - 1]):
        raise TurnscopeError(f"Turn {number} has no latency that counts: ask about another one.")
    return turns[number - 1]


def _flushed(run: Run) -> bool | None:
    """Whether the recogniser was flushed at the end of speech, as the run's settings say."""
    asr = run.info.settings.get("asr") if run.info else None
    flush = asr.get("flush") if isinstance(asr, dict) else None
    return flush if isinstance(flush, bool) else None


def _more_than_nothing(value: float, option: str) -> float:
    if value <= 0:
        raise TurnscopeError(f"{option} must be more than zero, as in 320ms.")
    return value
