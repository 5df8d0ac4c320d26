"""What notes, replies, ids and names can do to a terminal: nothing but be shown."""

import json
import logging
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from archqa import fhir
from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case, Sentence
from archqa.core.judgement import Judgement, Relevance
from archqa.core.step import Step
from archqa.core.usage import Usage
from archqa.errors import ArchqaError
from archqa.runs.folder import RunFolder
from archqa.runs.record import CaseRecord, CaseStatus
from tests.report.synthetic_runs import create_run
from tests.safety.command_line import CommandResult, archqa

ROOT = Path(__file__).resolve().parents[2]
TITLE = "\x1b]0;owned\x07"
CLEAR = "\x1b[2J"
CSI = "\x9b2J"
REVERSED = "\u202egnorw"
HOSTILE = f"{TITLE}{CLEAR}{CSI}\r{REVERSED}[/zzz][red]:pill:"

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def assert_harmless(result: CommandResult, code: int = 0) -> None:
    assert result.returncode == code, result.stderr
    assert not _CONTROL.search(result.stdout), ascii(result.stdout)
    assert not _CONTROL.search(result.stderr), ascii(result.stderr)


def hostile_case(case_id: str = f"c{HOSTILE}") -> Case:
    sentences = (Sentence(id="1", text=f"Heparin {HOSTILE} was given."),)
    return Case(
        id=case_id,
        patient_narrative=f"Why {HOSTILE}?",
        clinician_question=f"Why heparin {HOSTILE}?",
        sentences=sentences,
    )


def hostile_record(case_id: str) -> CaseRecord:
    judgement = Judgement(
        sentence_id="1", label=Relevance.ESSENTIAL, rationale=HOSTILE, probability=0.9
    )
    return CaseRecord(
        id=case_id,
        status=CaseStatus.ANSWERED,
        answer=CitedAnswer(claims=(Claim(text=f"Given {HOSTILE}.", citations=("1",)),)),
        evidence=("1",),
        judgements={f"agent {HOSTILE}": (judgement,)},
        remarks=(f"fell back {HOSTILE}",),
        usage=Usage(calls=1, cost_usd=0.1),
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    case = hostile_case()
    path = create_run(tmp_path, [case], name=f"run{HOSTILE.replace('/', '')}")
    folder = RunFolder(path)
    (path / "cases.jsonl").unlink()
    folder.add(hostile_record(case.id))
    step = Step(
        agent=f"a{HOSTILE}", backend="model", model="[/zzz]", usage=Usage(calls=1)
    )
    folder.add_step(case.id, step)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("show", "RUN"),
        ("show", "RUN", "CASE", "--rationales"),
        ("show", "RUN", "absent"),
        ("score", "RUN", "--per-case"),
        ("compare", "RUN", "RUN"),
        ("report", "RUN"),
        ("export", "RUN", "--format", "none"),
        ("merge", "RUN"),
        ("merge", "RUN", "RUN"),
        ("batch", "fetch", "RUN"),
    ],
)
def test_a_hostile_run_is_shown_with_escapes(
    run: Path, command: tuple[str, ...]
) -> None:
    words = {"RUN": str(run), "CASE": hostile_case().id}
    result = archqa(*[words.get(word, word) for word in command])
    assert_harmless(result, result.returncode)
    assert result.stdout + result.stderr


def test_the_text_itself_is_still_shown_and_is_no_markup(run: Path) -> None:
    shown = archqa(
        "show", str(run), hostile_case().id, "--rationales", COLUMNS="400"
    ).stdout
    assert r"\x1b[2J\x9b2J" in shown
    assert r"\u202egnorw[/zzz][red]:pill:" in shown


def test_a_picture_holds_no_control_character(run: Path, tmp_path: Path) -> None:
    from lxml import etree

    picture = tmp_path / "case.svg"
    assert (
        archqa("show", str(run), hostile_case().id, "--svg", str(picture)).returncode
        == 0
    )
    text = picture.read_text(encoding="utf-8")
    assert not _CONTROL.search(text.replace("\r", ""))
    etree.fromstring(text.encode())


def test_json_on_stdout_is_valid_and_free_of_control_characters(run: Path) -> None:
    result = archqa("cases", "check", str(run / "input.jsonl"), "--json")
    assert_harmless(result)
    assert json.loads(result.stdout)["cases"] == [hostile_case().id]


@pytest.mark.parametrize("format_name", ["csv", "jsonl", "archehr-2025"])
def test_an_export_to_a_pipe_is_the_same_as_in_a_file(
    run: Path, tmp_path: Path, format_name: str
) -> None:
    out = tmp_path / "out.json"
    command = ("export", str(run), "--format", format_name)
    assert archqa(*command, "--out", str(out)).returncode == 0
    assert archqa(*command).stdout == out.read_bytes().decode()


def test_a_hostile_case_file_is_refused_and_checked_with_escapes(
    tmp_path: Path,
) -> None:
    path = tmp_path / f"cases{TITLE}{CSI}.json"
    path.write_text(
        json.dumps([{"case_id": f"1{HOSTILE}", f"titel{HOSTILE}": 3, "sentences": 3}])
    )
    for command in (("cases", "check"), ("predict",)):
        assert_harmless(archqa(*command, str(path)), 3)


def test_a_hostile_case_file_that_is_right_is_listed_with_escapes(
    tmp_path: Path,
) -> None:
    from archqa.tasks import dump_json

    path = tmp_path / f"cases{TITLE}.json"
    path.write_text(dump_json([hostile_case()]), encoding="utf-8")
    assert_harmless(archqa("cases", "check", str(path)))
    assert_harmless(archqa("cases", "check", str(path), "--json"))


def test_an_answer_from_a_hostile_note_is_shown_with_escapes(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text(f"Furosemide {HOSTILE} 40 mg daily was given for fluid overload.")
    for options in ((), ("--json",)):
        result = archqa(
            "ask", f"Why furosemide {TITLE}?", "--note", str(note), *options
        )
        assert_harmless(result)


@pytest.mark.parametrize(
    "arguments",
    [
        (f"--{HOSTILE}",),
        (f"command{HOSTILE}",),
        ("show", "run", "case", f"extra{HOSTILE}"),
        ("predict", "mini", "--jobs", HOSTILE),
        ("list", HOSTILE),
        ("predict", HOSTILE),
        ("predict", "mini", "--set", f"{HOSTILE}=1"),
        ("predict", "mini", "--model", HOSTILE, "--dry-run"),
        ("predict", "mini", "--pipeline", HOSTILE),
        ("config", "show", "--set", f"model={HOSTILE}"),
        ("export", "run", "--format", HOSTILE),
        ("fhir", "get", f"Patient/{HOSTILE}", "--record", HOSTILE),
    ],
)
def test_hostile_arguments_are_quoted_with_escapes(arguments: tuple[str, ...]) -> None:
    result = archqa(*arguments)
    assert_harmless(result, result.returncode)
    assert "Traceback" not in result.stderr


def test_the_settings_in_force_are_toml_without_control_characters() -> None:
    name = f'm"{HOSTILE}\\ 𝛼'
    shown = archqa("config", "show", "--set", f"model={name}")
    assert_harmless(shown)
    assert tomllib.loads(shown.stdout)["model"] == name


@pytest.fixture
def hostile_store(tmp_path: Path) -> Path:
    path = tmp_path / "record.db"
    lines = tmp_path / "lines.ndjson"
    resources: list[dict[str, Any]] = [
        {"resourceType": "Patient", "id": "p", "name": [{"text": HOSTILE}]},
        {
            "resourceType": "Observation",
            "id": "o",
            "status": "final",
            "subject": {"reference": "Patient/p"},
            "code": {
                "coding": [
                    {"system": "http://s", "code": "1", "display": f"rate {HOSTILE}"}
                ]
            },
            "valueString": HOSTILE,
        },
    ]
    text = "\r\n".join(
        json.dumps(resource, ensure_ascii=False) for resource in resources
    )
    lines.write_text(text, encoding="utf-8", newline="")
    with fhir.Store.open(path, create=True) as store:
        store.load([lines], strict=True)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("search", "Observation?patient=p"),
        ("search", "Observation?patient=p", "--small"),
        ("get", "Observation/o"),
        ("card",),
        ("card", "--json"),
        ("lookup", "rate"),
        ("lookup", "rate", "--json"),
        ("search", f"Observation?{HOSTILE}=p"),
        ("get", f"Observation/{TITLE}"),
    ],
)
def test_a_hostile_record_is_shown_with_escapes(
    hostile_store: Path, command: tuple[str, ...]
) -> None:
    result = archqa("fhir", *command, "--record", str(hostile_store))
    assert_harmless(result, result.returncode)


def test_a_resource_is_printed_as_json_of_the_same_meaning(hostile_store: Path) -> None:
    result = archqa("fhir", "get", "Observation/o", "--record", str(hostile_store))
    assert json.loads(result.stdout)["valueString"] == HOSTILE


def test_an_error_message_is_printed_with_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from archqa.cli.console import print_error

    print_error(ArchqaError(f"The server says {HOSTILE}.\nTry {TITLE} again."))
    assert not _CONTROL.search(capsys.readouterr().err)


def test_log_lines_are_printed_with_escapes() -> None:
    code = (
        "import logging; from archqa.cli.console import configure_logging;"
        "configure_logging(verbose=True);"
        f"logging.getLogger('x').info('said %s', {HOSTILE!r})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "said" in ended.stderr
    assert not _CONTROL.search(ended.stderr)
    assert logging.getLogger("x").handlers == []


def test_only_one_module_of_the_command_line_prints() -> None:
    printing = re.compile(
        r"\bprint\(|typer\.echo|Console\(|sys\.std(out|err)\.write|markup=True"
    )
    for path in (ROOT / "archqa" / "cli").rglob("*.py"):
        if path.name != "console.py":
            text = path.read_text(encoding="utf-8").replace("console.print(", "")
            assert not printing.search(text), path
