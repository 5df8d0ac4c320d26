"""What the workers of pytest-xdist send: it holds no lone surrogate, which would end the session."""

import warnings

import pytest
from execnet.gateway_base import dumps

from tests.conftest import pytest_warning_recorded

HALF = "half a character: \udc80"


def test_a_failure_that_quotes_half_a_character_can_be_sent(
    request: pytest.FixtureRequest,
) -> None:
    report = pytest.TestReport(
        nodeid=f"tests/test_names.py::test_a_name[{HALF}]",
        location=("tests/test_names.py", 1, "test_a_name"),
        keywords={HALF: 1},
        outcome="failed",
        longrepr=f"AssertionError: {HALF}",
        when="call",
        sections=[("Captured stdout call", HALF)],
    )
    hook = request.config.hook
    content = hook.pytest_report_to_serializable(config=request.config, report=report)
    assert b"half a character" in dumps(content)


def test_a_warning_that_quotes_half_a_character_can_be_sent() -> None:
    warning = warnings.WarningMessage(ResourceWarning(HALF), ResourceWarning, "a.py", 1)
    pytest_warning_recorded(warning)
    assert dumps(str(warning.message)) == dumps("half a character: \\udc80")
