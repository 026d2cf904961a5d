"""`python -m agent.cli`: the same as the `turnscope` command."""

from agent.cli import main

main()
