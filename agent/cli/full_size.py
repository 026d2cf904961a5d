"""`turnscope full-size`: the big pipeline at full size with random weights, measured against predicted time."""

from pathlib import Path

import click

from agent import devices
from agent.cli import consoles
from agent.cli.output_file import OutputFile

_PHASES = ("asr", "llm", "tts", "turn")
_LEAST_WIDTH = 120


class _Phases(click.ParamType[tuple[str, ...]]):
    """Some of the phases, with commas between them."""

    name = ",".join(_PHASES)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = tuple(str(value).split(","))
        if unknown := [name for name in names if name not in _PHASES]:
            self.fail(f"{unknown[0]!r} is none of {', '.join(_PHASES)}.", param, ctx)
        return names


@click.command("full-size")
@click.option("--only", type=_Phases(), help="Measure these only; without it, all.")
@click.option("--device", default="auto", metavar="DEVICE", help="auto, cpu, cuda or cuda:N.")
@click.option("--quick", is_flag=True, help="Fewer sizes and repetitions.")
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="File for all figures. Default RUNS/full-size.json."
)
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), help="Where the turn's run folder goes.")
def full_size(only: tuple[str, ...] | None, device: str, quick: bool, json_path: Path | None, runs: Path) -> None:
    """Run the three big engines at full size with random weights and compare measured with predicted time.

    Speed depends on shapes, not on what the weights say, so this needs no download: first each engine alone, then one
    scripted turn through all three. The files (16 GB) are made once and stay in the user's cache.
    """
    from agent.experiments.full_size import effort, table
    from agent.experiments.full_size.experiment import PHASES, Experiment, Plan
    from agent.experiments.full_size.report import FILE

    console, notes = consoles.output(), consoles.notes()
    place = devices.resolve(device)
    path = json_path or runs / FILE
    file = OutputFile(path, "give other places with --json and --runs")
    file.require_writable()
    how_much = effort.QUICK if quick else effort.ON_CPU if place == devices.CPU else effort.ON_GPU
    with notes.status("Looking at what can be measured here …"):
        experiment = Experiment(Plan(only or PHASES, place, how_much, runs))
    told = list(experiment.notes)
    for sentence in told:
        consoles.note(notes, sentence)
    experiment.require_room()
    minutes = max(1, round(experiment.expected_s / 60))
    notes.print(f"This takes about {minutes} minutes on {experiment.place}.", highlight=False)
    with consoles.progress(notes) as tell:
        report = experiment.run(tell)
    for sentence in report.notes[len(told) :]:
        consoles.note(notes, sentence)
    console.width = max(console.width, _LEAST_WIDTH)
    for one in table.tables(report.rows, report.ceilings):
        console.print(one)
    file.write(report.as_json())
    lines = [f"Took {report.took_s / 60:.1f} minutes. All figures: {path}"]
    if report.run_folder is not None:
        lines.append(f"The turn: turnscope explain {report.run_folder}")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
