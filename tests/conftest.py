"""Every test: no network but loopback, its own cache and settings, no key from outside."""

import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pytest_socket import enable_socket, socket_allow_hosts

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

# No test depends on an idle machine.
settings.register_profile("archqa", deadline=None)
settings.load_profile("archqa")


@pytest.fixture(autouse=True)
def block_network() -> None:
    enable_socket()
    socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)


@pytest.fixture(autouse=True)
def isolated_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def shared() -> Path:
    """The folder of reference data beside the checkout; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("../shared is not here")
    return SHARED


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests on a real model server: they take longest, and others fill the gaps."""
    items.sort(key=lambda item: item.get_closest_marker("server") is None)


def without_surrogates(content: Any) -> Any:
    """Escape lone surrogates, which no worker of pytest-xdist can send: the session would end."""
    if isinstance(content, str):
        return content.encode(errors="backslashreplace").decode()
    if isinstance(content, dict):
        return {
            without_surrogates(name): without_surrogates(value)
            for name, value in content.items()
        }
    if isinstance(content, list | tuple):
        return type(content)(map(without_surrogates, content))
    return content


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Let a test fail whose message quotes half a character."""
    return without_surrogates((yield))


@pytest.hookimpl(tryfirst=True)
def pytest_warning_recorded(warning_message: warnings.WarningMessage) -> None:
    """Let a warning quote half a character, such as one of a file that a test left open."""
    text = str(warning_message.message)
    escaped = without_surrogates(text)
    if escaped != text:
        warning_message.message = warning_message.category(escaped)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    """Say below all else that the pages were not tested, as nobody reads a list of skips."""
    yield
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if "browser" in report.keywords
    ]
    if skipped:
        terminalreporter.write_sep(
            "!", "the pages were not tested", red=True, bold=True
        )
        terminalreporter.write_line(
            f"{len(skipped)} browser tests were skipped: install chromium "
            "(Debian: apt-get install chromium) and `pip install --group dev`.",
            red=True,
        )
