"""For work that is not to be stopped."""


def never() -> bool:
    """A `should_stop` that is always false."""
    return False
