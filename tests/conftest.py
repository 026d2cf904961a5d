"""Replays at real pace come first of all tests: they wait more than they compute, so others can run beside them."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "end_to_end" not in item.path.parts)
