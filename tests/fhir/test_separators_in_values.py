"""Search values with separators and special characters."""

from pathlib import Path

import pytest

from archqa.fhir import (
    FhirService,
    Store,
)
from archqa.fhir.values.urls import build_search_url, split_unescaped, unescape
from tests.fhir.invented import (
    build_store,
    codeable_concept,
    ids_of,
    observation,
)
from tests.fhir.serving import BASE, client_of


@pytest.mark.parametrize("separator", ["|", ",", "$", "\\"])
def test_an_escaped_separator_does_not_divide_a_search_value(
    tmp_path: Path, separator: str
) -> None:
    code = f"A{separator}B"
    store = build_store(
        tmp_path,
        [
            observation("with", "p", codeable_concept(code)),
            observation("before", "p", codeable_concept("A")),
            observation("after", "p", codeable_concept("B")),
        ],
    )
    escaped = f"A\\{separator}B"
    with client_of(FhirService(store, BASE)) as client:
        for record in (store, client):
            page = record.search("Observation", {"code": escaped})
            assert ids_of(page.resources) == ["with"]
            everything = record.search_all("Observation", {"code": f"{escaped},absent"})
            assert ids_of(everything) == ["with"]


def test_splitting_and_unescaping_undo_escaping() -> None:
    assert split_unescaped(r"a\|b|c\\|d", "|") == [r"a\|b", r"c\\", "d"]
    assert unescape(r"a\|b\,c\$d\\e\f") == r"a|b,c$d\e\f"


@pytest.mark.parametrize("character", ["&", "=", "#", "+", "%", " ", "?", "é"])
def test_a_url_carries_every_character_of_a_value(
    ward_store: Store, character: str
) -> None:
    value = f"x{character}y"
    url = build_search_url("Observation", [("code", value)])
    assert ward_store.search(url).query == url
    client = client_of(FhirService(ward_store, BASE))
    assert client.search("Observation", {"code": value}).query == url
    assert not any(sign in url.partition("=")[2] for sign in "&=# +?é")
