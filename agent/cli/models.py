"""`turnscope models`: which model files there are, and fetching them."""

import click

from agent import models as store
from agent.cli import consoles


@click.group(invoke_without_command=True)
@click.pass_context
def models(context: click.Context) -> None:
    """List the models: stage, licence, size, source, and whether they are here."""
    if context.invoked_subcommand is None:
        consoles.output().print(store.models_table())


@models.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
def fetch(names: tuple[str, ...]) -> None:
    """Fetch, verify and convert models; without a NAME, those that the default pipeline needs."""
    store.fetch(list(names) or store.embedded_models(), consoles.notes())
