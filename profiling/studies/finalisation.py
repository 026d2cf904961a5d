"""When a transcript is final: how long after the end of speech, by chunk, with the rest of the chunk flushed or waited
for."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median

from profiling.studies.finding import Finding, Plot, Series

_TOO_SLOW = 1.0  # seconds of computing per second of sound


@dataclass(frozen=True)
class Ending:
    """One utterance, in seconds. Speech ended `wait_s` before its chunk did; `flushed_s` and `unflushed_s` after speech
    the transcript was final, the latter None for a model that waits for no chunk. `queue_s` of the flushed one passed
    with a step that was still being computed. `last_step_s` is what the passes of the last step would take by the step
    before; None where there was none. `busy` is computing per second of sound."""

    chunk_s: float
    wait_s: float
    flushed_s: float
    unflushed_s: float | None
    queue_s: float
    last_step_s: float | None
    busy: float


@dataclass(frozen=True)
class Chunk:
    """All endings with one size of chunk."""

    chunk_s: float
    endings: tuple[Ending, ...]

    @property
    def flushed_s(self) -> list[float]:
        return [one.flushed_s for one in self.endings]

    @property
    def unflushed_s(self) -> list[float]:
        """Empty for a model that waits for no chunk."""
        return [one.unflushed_s for one in self.endings if one.unflushed_s is not None]

    @property
    def computing_s(self) -> float | None:
        """The law of the flushed stream: the passes that are left take what such passes took before the end."""
        known = [one.last_step_s for one in self.endings if one.last_step_s is not None]
        return median(known) if known else None

    @property
    def waiting_s(self) -> float | None:
        """The law of the other one: half a chunk more, on average."""
        return None if self.computing_s is None else self.computing_s + self.chunk_s / 2

    @property
    def saved_s(self) -> float | None:
        """By flushing, on average."""
        return mean(self.unflushed_s) - mean(self.flushed_s) if self.unflushed_s else None

    @property
    def busy(self) -> float:
        return median(one.busy for one in self.endings)


def by_chunk(endings: Sequence[Ending]) -> list[Chunk]:
    sizes = sorted({one.chunk_s for one in endings})
    return [Chunk(size, tuple(one for one in endings if one.chunk_s == size)) for size in sizes]


def finalisation_finding(model: str, endings: Sequence[Ending]) -> Finding:
    """From utterances that ended at several phases of their chunks. Raises ValueError without any."""
    chunks = by_chunk(endings)
    if not chunks:
        raise ValueError("no utterances")
    waits = all(chunk.unflushed_s for chunk in chunks)
    columns = ("chunk", "flushed: law", "mean", "worst", "not flushed: law", "mean", "worst", "n")
    return Finding(
        title=f"Transcripts of {model}, final so many ms after the end of speech",
        columns=columns if waits else ("cadence", "law", "mean", "worst", "of it queue", "n"),
        rows=tuple(_row(chunk) if waits else _row_of_cadence(chunk) for chunk in chunks),
        plot=_plot(model, chunks),
        sentence=_saved(chunks) if waits else _cadence(chunks),
        notes=tuple(_notes(chunks)),
        data={"endings": [asdict(one) for one in endings]},
    )


def _row(chunk: Chunk) -> tuple[str, ...]:
    return (
        _name(chunk),
        _ms(chunk.computing_s),
        *_mean_and_worst(chunk.flushed_s),
        _ms(chunk.waiting_s),
        *_mean_and_worst(chunk.unflushed_s),
        str(len(chunk.endings)),
    )


def _row_of_cadence(chunk: Chunk) -> tuple[str, ...]:
    queued_s = mean(one.queue_s for one in chunk.endings)
    counted = str(len(chunk.endings))
    return _name(chunk), _ms(chunk.computing_s), *_mean_and_worst(chunk.flushed_s), _ms(queued_s), counted


def _name(chunk: Chunk) -> str:
    return f"{chunk.chunk_s * 1e3:.0f} ms"


def _mean_and_worst(times_s: Sequence[float]) -> tuple[str, str]:
    return _ms(mean(times_s)), _ms(max(times_s))


def _ms(time_s: float | None) -> str:
    return "" if time_s is None else f"{time_s * 1e3:.0f}"


def _saved(chunks: Sequence[Chunk]) -> str:
    saved = _listed([f"{_ms(chunk.saved_s)} ms at {_name(chunk)}" for chunk in chunks])
    shares = [chunk.saved_s / chunk.chunk_s for chunk in chunks if chunk.saved_s is not None]
    least, most = f"{min(shares):.2f}", f"{max(shares):.2f}"
    share = least if least == most else f"{least} to {most}"
    flushed = [mean(chunk.flushed_s) for chunk in chunks]
    return (
        f"Flushing makes the transcript final earlier by {saved}, which is {share} of a chunk (law: 0.5); flushed, it "
        f"is final {_ms(min(flushed))} to {_ms(max(flushed))} ms after the end of speech."
    )


def _cadence(chunks: Sequence[Chunk]) -> str:
    means = {chunk: mean(chunk.flushed_s) for chunk in chunks}
    least, most = min(chunks, key=lambda one: means[one]), max(chunks, key=lambda one: means[one])
    queued_s = max(mean(one.queue_s for one in chunk.endings) for chunk in chunks)
    return (
        "There is nothing to flush: this model waits for no chunk, which is only the cadence of its partial "
        f"transcripts. The transcript is final {_ms(means[least])} ms after the end of speech with partials every "
        f"{_name(least)}, {_ms(means[most])} ms with one every {_name(most)}; a partial that is still being computed "
        f"then costs up to {_ms(queued_s)} ms of it on average."
    )


def _listed(items: Sequence[str]) -> str:
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def _notes(chunks: Sequence[Chunk]) -> list[str]:
    notes = [
        "Counted from the last voiced sample: in a conversation the wait for the end of the turn goes on beside it."
    ]
    slow = [_name(chunk) for chunk in chunks if chunk.busy > _TOO_SLOW]
    if slow:
        notes.append(f"At {_listed(slow)} this recogniser is slower than speech here: its steps queue.")
    return notes


def _plot(model: str, chunks: Sequence[Chunk]) -> Plot:
    sizes = [chunk.chunk_s * 1e3 for chunk in chunks]
    series = [_points("flushed" if chunks[0].unflushed_s else "final", sizes, [chunk.flushed_s for chunk in chunks])]
    laws = [("compute of the last pass", [chunk.computing_s for chunk in chunks])]
    if all(chunk.unflushed_s for chunk in chunks):
        series.append(_points("not flushed", sizes, [chunk.unflushed_s for chunk in chunks]))
        laws.append(("compute + chunk / 2", [chunk.waiting_s for chunk in chunks]))
    for label, values in laws:
        known = [(size, value * 1e3) for size, value in zip(sizes, values, strict=True) if value is not None]
        series.append(Series(label, [x for x, _ in known], [y for _, y in known], style="line"))
    return Plot(
        f"Final transcripts of {model}", "chunk, ms", "after the end of speech, ms: mean, best and worst", tuple(series)
    )


def _points(label: str, sizes: Sequence[float], times_s: Sequence[Sequence[float]]) -> Series:
    return Series(
        label,
        sizes,
        [mean(times) * 1e3 for times in times_s],
        [min(times) * 1e3 for times in times_s],
        [max(times) * 1e3 for times in times_s],
    )
