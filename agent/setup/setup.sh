#!/bin/sh
# Finds a Python that can make virtual environments, installing one if need be, and hands over to `python -m agent.setup`.
# Set PYTHON to choose the one that .venv is made from.
set -eu
cd "$(dirname "$0")/../.."

usable() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null
}

find_python() {
    [ -e .venv/.ready ] && set -- .venv/bin/python || set --
    for python in "$@" ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        if usable "$python"; then
            echo "$python"
            return
        fi
    done
    return 1
}

if ! python=$(find_python); then
    agent/setup/apt.sh "Python 3.11 to 3.14 with its venv module" \
        "python3.14-venv|python3.13-venv|python3.12-venv|python3.11-venv|python3-venv"
    if ! python=$(find_python); then
        echo "No Python 3.11 to 3.14 with its venv module was found: install one and set PYTHON to its path." >&2
        exit 1
    fi
fi
exec "$python" -m agent.setup "$@"
