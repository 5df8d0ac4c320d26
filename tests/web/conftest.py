"""One browser for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.web.browser import close_browser


@pytest.fixture(scope="module", autouse=True)
def _browser_of_the_module() -> Iterator[None]:
    """Close the browser after the module: its event loop would stop the async tests of others."""
    yield
    close_browser()
