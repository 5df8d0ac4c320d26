"""A mistyped command is refused without repeating a question or the secret of a URL."""

import pytest

from tests.safety.command_line import archqa

ADVICE = "quotation marks"


def test_a_question_without_quotation_marks_is_not_repeated() -> None:
    result = archqa("ask", "Why", "did", "Zacharias", "vomit?", "--note", "note.txt")
    assert result.returncode == 2
    assert ADVICE in result.stderr
    assert "Zacharias" not in result.stderr
    assert "vomit" not in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "http://me:canary@h.example/v1",
        "http://h.example?key=canary",
        "http://me:canary@[::1",
    ],
)
@pytest.mark.parametrize(
    "words",
    [["predict", "mini"], ["predict", "mini", "--limit"], ["config", "show"], []],
)
def test_the_secret_of_a_misplaced_url_is_not_repeated(
    words: list[str], url: str
) -> None:
    result = archqa(*words, url)
    assert result.returncode == 2
    assert "canary" not in result.stderr + result.stdout


@pytest.mark.parametrize(
    "url", ["http://[::1", "HTTP://me:canary@[::1", "http://me:canary@h:x/"]
)
def test_a_record_at_no_url_is_refused_in_a_sentence(url: str) -> None:
    result = archqa("ask", "Why?", "--patient", "p1", "--record", url)
    assert result.returncode == 2
    assert "The FHIR server's address is not a URL" in result.stderr
    assert "canary" not in result.stderr
