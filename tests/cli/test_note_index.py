"""The index of a record's notes, as a person makes and removes it."""

import json
import sqlite3
from pathlib import Path

from tests.chart.charts import PATIENT, note
from tests.cli.test_commands import archqa


def tables(record: Path) -> list[str]:
    with sqlite3.connect(record) as connection:
        rows = connection.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE 'note_%'"
        )
        return [name for (name,) in rows]


def test_notes_are_indexed_at_load_unless_that_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "all.ndjson"
    file.write_text(
        f"{json.dumps(PATIENT)}\n{json.dumps(note('d1', 'Eats well. Naps.'))}\n"
    )
    record = tmp_path / "record.db"
    load = ("fhir", "load", str(file), "--into", str(record))
    plain = archqa(*load, "--no-notes", "--json")
    assert json.loads(plain.stdout)["notes"] is None
    assert tables(record) == []
    loaded = archqa(*load, "--json")
    assert json.loads(loaded.stdout)["notes"] == {
        "documents": 1,
        "notes": 1,
        "sentences": 2,
        "unread": 0,
        "unread_names": [],
    }
    assert tables(record)
    assert "notes indexed" not in archqa(*load).stdout


def test_an_index_is_made_removed_and_made_again(tmp_path: Path) -> None:
    file = tmp_path / "all.ndjson"
    file.write_text(f"{json.dumps(PATIENT)}\n{json.dumps(note('d1', 'Eats well.'))}\n")
    record = str(tmp_path / "record.db")
    archqa("fhir", "load", str(file), "--into", record, "--no-notes")
    assert archqa("fhir", "index", record).stdout == "1 note indexed, 1 sentence\n"
    assert archqa("fhir", "index", record).stdout == ""
    assert archqa("fhir", "index", record, "--remove").returncode == 0
    assert tables(Path(record)) == []
    assert (
        json.loads(archqa("fhir", "index", record, "--json").stdout)["sentences"] == 1
    )
    absent = archqa("fhir", "index", str(tmp_path / "absent.db"))
    assert absent.returncode == 3
    assert "no such record" in absent.stderr
