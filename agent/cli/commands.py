"""The commands of `turnscope`, gathered. A command's module, and what it imports, loads when it is called."""

from importlib import import_module

import click

from agent.cli.interruption import ending_at_once

# By name, in the order in which the help lists them: the module below agent.cli, and the command in it.
_COMMANDS = {
    "replay": ("replay", "replay"),
    "talk": ("talk", "talk"),
    "serve": ("serve", "serve"),
    "explain": ("explain", "explain"),
    "what-if": ("what_if", "what_if"),
    "machine": ("machine", "machine"),
    "calibrate": ("calibrate", "calibrate"),
    "predict": ("predict", "predict"),
    "study": ("study", "study_command"),
    "models": ("models", "models"),
    "full-size": ("full_size", "full_size"),
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, command = _COMMANDS[cmd_name]
        with ending_at_once():
            return getattr(import_module(f"agent.cli.{module}"), command)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnscope")
def cli() -> None:
    """Turnscope: a streaming voice agent that explains its own latency."""
