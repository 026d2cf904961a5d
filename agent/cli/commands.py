"""The commands of `turnscope`, gathered."""

import click

from agent.cli.calibrate import calibrate
from agent.cli.explain import explain
from agent.cli.full_size import full_size
from agent.cli.machine import machine
from agent.cli.models import models
from agent.cli.predict import predict
from agent.cli.replay import replay
from agent.cli.study import study_command
from agent.cli.what_if import what_if


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnscope")
def cli() -> None:
    """Turnscope: a streaming voice agent that explains its own latency."""


for command in (replay, explain, what_if, machine, calibrate, predict, study_command, models, full_size):
    cli.add_command(command)
