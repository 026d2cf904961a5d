from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Playwright

from tests.web.browser import chromium, driver


@pytest.fixture(scope="module")  # its event loop would be in the way of other modules' own
def playwright() -> Iterator[Playwright]:
    with driver() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with chromium(playwright) as browser:
        yield browser
