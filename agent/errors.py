"""The one kind of error a user is meant to read."""


class TurnscopeError(Exception):
    """A sentence for the user: what is wrong and what to do about it. `agent.cli` prints it and exits with
    `exit_code`."""

    exit_code = 2
