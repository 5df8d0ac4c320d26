"""`archqa fhir …`: results on stdout, words on stderr."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from archqa.cli.fhir import app
from archqa.errors import CallerError, InputError
from archqa.fhir import FhirError
from tests.fhir.invented import ward_resources, write_ndjson


@pytest.fixture
def record(tmp_path: Path) -> str:
    write_ndjson(tmp_path / "ward.ndjson.gz", ward_resources())
    run("load", str(tmp_path / "ward.ndjson.gz"), "--into", str(tmp_path / "record.db"), "--quiet")
    return str(tmp_path / "record.db")


def run(*words: str) -> Result:
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_load_tells_what_it_did_and_ends_with_1_if_lines_were_bad(tmp_path: Path) -> None:
    path = write_ndjson(tmp_path / "ward.ndjson", ward_resources())
    told = json.loads(
        run("load", str(path), "--into", str(tmp_path / "a.db"), "--quiet", "--json").stdout
    )
    assert (told["added"], told["by_type"]["Observation"], told["bad"]) == (
        len(ward_resources()),
        6,
        0,
    )
    path.write_text(path.read_text() + "no json\n")
    again = run("load", str(path), "--into", str(tmp_path / "a.db"), "--quiet")
    assert again.exit_code == 1
    assert f"ward.ndjson:{len(ward_resources()) + 1}: is not JSON" in again.output
    with pytest.raises(InputError):
        run("load", str(path), "--into", str(tmp_path / "b.db"), "--quiet", "--strict")


def test_search_prints_a_resource_a_line(record: str) -> None:
    result = run("search", "Observation?patient=p1&_count=2", "--record", record)
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["o1", "o2"]
    assert "5 in all; more with: Observation?patient=p1&_count=2&_offset=2" in result.stderr
    every = run("search", "Observation?patient=p1&_count=2", "--record", record, "--all", "--small")
    assert json.loads(every.stdout.splitlines()[2])["code"] == "Heart Rate [HR]"
    with pytest.raises(FhirError, match="Did you mean patient"):
        run("search", "Observation?pateint=p1", "--record", record)


def test_get_prints_one_resource(record: str) -> None:
    assert json.loads(run("get", "Patient/p2", "--record", record).stdout)["id"] == "p2"
    with pytest.raises(FhirError, match="There is no Patient"):
        run("get", "Patient/absent", "--record", record)
    with pytest.raises(CallerError):
        run("get", "Patient", "--record", record)


def test_card_and_lookup(record: str) -> None:
    assert "Observation: 5" in run("card", "--record", record, "--patient", "p1").stdout
    assert json.loads(run("card", "--record", record, "--json").stdout)["types"]
    assert (
        "Heart Rate" in run("lookup", "heart", "rate", "--record", record, "--patient", "p1").stdout
    )
    assert json.loads(run("lookup", "nothing here", "--record", record, "--json").stdout) == []


def test_serve_refuses_an_open_address_and_an_unknown_profile(record: str) -> None:
    pytest.importorskip("uvicorn")
    with pytest.raises(CallerError, match="token"):
        run("serve", record, "--host", "0.0.0.0", "--writes", "apply")
    with pytest.raises(CallerError, match="profile"):
        run("serve", record, "--profile", "epic")
