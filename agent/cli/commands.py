"""The commands of `turnscope`, gathered."""

import click

from agent.cli.explain import explain
from agent.cli.full_size import full_size
from agent.cli.models import models
from agent.cli.replay import replay


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnscope")
def cli() -> None:
    """Turnscope: a streaming voice agent that explains its own latency."""


for command in (replay, explain, models, full_size):
    cli.add_command(command)
