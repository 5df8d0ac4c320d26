"""`archqa fhir …`: results on stdout, messages on stderr."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from archqa.cli.fhir import app
from archqa.errors import CallerError, InputError
from archqa.fhir import FhirError
from tests.fhir.invented import ids_of, ward_resources, write_ndjson


@pytest.fixture
def record(tmp_path: Path) -> str:
    path = write_ndjson(tmp_path / "ward.ndjson.gz", ward_resources())
    record = str(tmp_path / "record.db")
    run("load", str(path), "--into", record, "--quiet")
    return record


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_load_prints_a_report_and_exits_with_1_if_lines_were_bad(
    tmp_path: Path,
) -> None:
    resources = ward_resources()
    path = write_ndjson(tmp_path / "ward.ndjson", resources)
    load = ("load", str(path), "--quiet", "--into", str(tmp_path / "a.db"))
    report = json.loads(run(*load, "--json").stdout)
    assert report["added"] == len(resources)
    assert report["by_type"]["Observation"] == 6
    assert report["bad"] == 0
    with path.open("a") as file:
        file.write("no json\n")
    repeated = run(*load)
    assert repeated.exit_code == 1
    assert f"ward.ndjson:{len(resources) + 1}: is not JSON" in repeated.output
    with pytest.raises(InputError):
        run("load", str(path), "--quiet", "--into", str(tmp_path / "b.db"), "--strict")


def test_search_prints_a_resource_a_line(record: str) -> None:
    query = "Observation?patient=p1&_count=2"
    result = run("search", query, "--record", record)
    resources = map(json.loads, result.stdout.splitlines())
    assert ids_of(resources) == ["o1", "o2"]
    assert f"5 in all; more with: {query}&_offset=2" in result.stderr
    all_pages = run("search", query, "--record", record, "--all", "--small")
    heart_rate = json.loads(all_pages.stdout.splitlines()[2])
    assert heart_rate["code"] == "Heart Rate [HR]"
    with pytest.raises(FhirError, match="Did you mean patient"):
        run("search", "Observation?pateint=p1", "--record", record)


def test_get_prints_one_resource(record: str) -> None:
    result = run("get", "Patient/p2", "--record", record)
    assert json.loads(result.stdout)["id"] == "p2"
    with pytest.raises(FhirError, match="There is no Patient"):
        run("get", "Patient/absent", "--record", record)
    with pytest.raises(CallerError):
        run("get", "Patient", "--record", record)


def test_card_and_lookup_print_text_or_json(record: str) -> None:
    card = run("card", "--record", record, "--patient", "p1")
    assert "Observation: 5" in card.stdout
    card = run("card", "--record", record, "--json")
    assert json.loads(card.stdout)["types"]
    hits = run("lookup", "heart", "rate", "--record", record, "--patient", "p1")
    assert "Heart Rate" in hits.stdout
    hits = run("lookup", "nothing here", "--record", record, "--json")
    assert json.loads(hits.stdout) == []


def test_serve_refuses_an_open_address_and_an_unknown_profile(record: str) -> None:
    pytest.importorskip("uvicorn")
    with pytest.raises(CallerError, match="token"):
        run("serve", record, "--host", "0.0.0.0", "--no-token", "--writes", "apply")
    with pytest.raises(CallerError, match="profile"):
        run("serve", record, "--profile", "epic")
