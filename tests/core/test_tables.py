from pathlib import Path

import pytest

from archqa.core.tables import read_mapping, read_rows, split_cell
from archqa.errors import InputError
from tests.conftest import ROOT


def _table(folder: Path, text: str) -> Path:
    path = folder / "words.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def test_comments_and_empty_lines_are_no_rows_and_cells_have_no_outer_spaces(
    tmp_path: Path,
) -> None:
    table = _table(tmp_path, "# a\tcomment\n\n one \ttwo\nthree\tfour # no comment\n")
    assert read_rows(table, 2) == (("one", "two"), ("three", "four # no comment"))
    assert read_mapping(table) == {"one": "two", "three": "four # no comment"}


def test_a_row_may_lack_its_optional_cells(tmp_path: Path) -> None:
    table = _table(tmp_path, "one\ntwo\tthree\n")
    assert read_rows(table, 2, optional=1) == (("one", ""), ("two", "three"))


def test_every_row_with_other_cells_is_named_by_file_and_line(tmp_path: Path) -> None:
    table = _table(tmp_path, "# header\none\ntwo\tthree\nfour\tfive\tsix\n")
    with pytest.raises(InputError) as error:
        read_rows(table, 2)
    assert str(error.value) == (
        f"{table}, line 2: 1 cells; expected 2.\n{table}, line 4: 3 cells; expected 2.\n"
        "Separate the cells of a row by single tabs."
    )


def test_a_dash_is_an_empty_cell() -> None:
    assert split_cell("-") == ()
    assert split_cell("heart attack|mi") == ("heart attack", "mi")


def test_the_package_has_few_tables_and_each_says_what_it_is() -> None:
    tables = sorted((ROOT / "archqa").rglob("*.tsv"))
    assert len(tables) <= 45
    assert [
        table.name for table in tables if not table.read_text().startswith("#")
    ] == []
