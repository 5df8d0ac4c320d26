"""`archqa brief` as a user types it."""

import json
import re
import stat
from pathlib import Path

import pytest

from archqa.cli.console import PrintableConsole
from tests.briefing.invented_chart import NOW, chart
from tests.cli.test_commands import archqa
from tests.fhir.invented import patient

KEYS = {
    "patient",
    "now",
    "sections",
    "nothing_recorded",
    "evidence",
    "remarks",
    "answered_by",
    "calls",
    "cost_usd",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    record = chart(tmp_path_factory.mktemp("chart"))
    return ("brief", "--patient", "Ann Stone", "--record", record, "--now", NOW)


def test_markdown_is_printed_with_numbered_evidence(place: tuple[str, ...]) -> None:
    result = archqa(*place, "--evidence")
    assert result.returncode == 0
    assert result.stdout.startswith("# Ann Stone\n")
    assert (
        r"- Asthma, since 2010-03-01 (active), recorded 2 times, last on 2020-04-02 \[4-5\]"
        in result.stdout
    )
    assert "\n4. Condition/c2: " in result.stdout


@pytest.mark.parametrize("option", [("--json",), ("--format", "json")])
def test_json_has_the_keys_of_the_contract(
    place: tuple[str, ...], option: tuple[str, ...]
) -> None:
    result = archqa(*place, *option)
    summary = json.loads(result.stdout)
    assert set(summary) == KEYS
    assert summary["patient"] == {"id": "p1", "name": "Ann Stone"}
    assert {"name", "title", "lines", "message", "is_absent"} == set(
        summary["sections"][0]
    )
    assert {"text", "citations"} <= set(summary["sections"][0]["lines"][0])
    assert (summary["calls"], summary["cost_usd"]) == (0, 0.0)


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("a.html", "<!doctype html>"), ("a.md", "# Ann"), ("a.json", "{")],
)
def test_a_file_is_private_and_in_the_format_of_its_name(
    place: tuple[str, ...], tmp_path: Path, name: str, beginning: str
) -> None:
    out = tmp_path / name
    result = archqa(*place, "--out", str(out))
    assert (result.returncode, result.stdout.strip()) == (0, str(out))
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert out.read_text(encoding="utf-8").startswith(beginning)


def test_chosen_sections_alone_are_printed(place: tuple[str, ...]) -> None:
    result = archqa(*place, "--sections", "labs, allergies", "--json")
    sections = [section["name"] for section in json.loads(result.stdout)["sections"]]
    assert sections == ["allergies", "labs"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--sections", "moods"), 2),
        (("--json", "--format", "html"), 2),
        (("--now", "soon"), 2),
        (("--patient", "nobody"), 2),
        (("--record", "/nowhere/record.db"), 3),
    ],
)
def test_a_wrong_call_says_so_with_its_exit_code(
    place: tuple[str, ...], arguments: tuple[str, ...], code: int
) -> None:
    result = archqa(*place, *arguments)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith("archqa: ")


def test_of_several_patients_of_a_name_one_is_to_be_chosen(tmp_path: Path) -> None:
    record = chart(tmp_path, patient("p2", "Stone", ["Ann"]))
    result = archqa("brief", "--patient", "Ann Stone", "--record", record, "--json")
    assert result.returncode == 2
    assert "Ann" not in result.stderr


def test_a_key_in_the_environment_sends_nothing(place: tuple[str, ...]) -> None:
    result = archqa(
        *place, "--json", OPENAI_API_KEY="sk-x", OPENAI_BASE_URL="http://127.0.0.1:9"
    )
    assert json.loads(result.stdout)["calls"] == 0


def test_a_terminal_shows_the_page_and_no_markdown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: tuple[str, ...],
) -> None:
    from archqa.cli import brief as command_module

    terminal = PrintableConsole()
    monkeypatch.setattr(type(terminal), "is_terminal", True)
    monkeypatch.setattr(command_module, "console", terminal)
    _, _, patient_id, _, record, _, now = place
    command_module.command(patient=patient_id, record=record, now=now)
    page = capsys.readouterr().out
    assert "Asthma, since 2010-03-01 (active)" in page
    assert "Nothing recorded:" in page
    assert not re.search(r"^#|^- |\\\[", page, re.MULTILINE)


@pytest.mark.parametrize(("option", "is_whole"), [((), False), (("--evidence",), True)])
def test_the_evidence_is_printed_on_request(
    place: tuple[str, ...], option: tuple[str, ...], is_whole: bool
) -> None:
    assert ("## Evidence" in archqa(*place, *option).stdout) is is_whole
