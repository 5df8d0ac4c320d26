"""The tables: references between rows, forms that are found, headers, check digits, speed."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from archqa.core.tables import read_rows, split_cell
from archqa.query.execution.named_rows import ALL_CONCEPT_KINDS
from archqa.terminology.concept import ConceptKind, Relation
from archqa.terminology.concepts import (
    concept_named,
    find_concepts,
    load_concepts,
    load_stated_concepts,
    measured_state,
    mentions_of,
    related,
)
from archqa.terminology.drugs import ingredients_of
from archqa.terminology.glossary import load_glossary
from archqa.terminology.matching import expand_form
from archqa.terminology.units import convert, ucum_unit
from tests.conftest import ROOT

DATA = ROOT / "archqa" / "terminology" / "data"
TABLES = sorted(DATA.glob("*.tsv"))
LOINC, SNOMED = "http://loinc.org", "http://snomed.info/sct"
PRINTED_BY_US_CORE = {"3150-6"}
"""The code of the inhaled oxygen concentration in US Core; its check digit does not fit."""

_DIHEDRAL = (
    *("0123456789", "1234067895", "2340178956", "3401289567", "4012395678"),
    *("5987604321", "6598710432", "7659821043", "8765932104", "9876543210"),
)
_PERMUTATION = (
    *("0123456789", "1576283094", "5803796142", "8916043527"),
    *("9453126870", "4286573901", "2793806415", "7046913258"),
)
"""The tables of Verhoeff's check digit, in which SNOMED CT codes end."""


def _codes(system: str) -> set[str]:
    concepts = load_concepts()
    codes = [
        code for concept in concepts for code in (*concept.codes, *concept.past_codes)
    ]
    return {code for of_system, code in codes if of_system == system}


def _luhn_fits(code: str) -> bool:
    number, _, check = code.partition("-")
    total = 0
    for place, digit in enumerate(reversed(number)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled // 10 + doubled % 10
    return (10 - total % 10) % 10 == int(check)


def _verhoeff_fits(code: str) -> bool:
    check = 0
    for place, digit in enumerate(reversed(code)):
        check = int(_DIHEDRAL[check][int(_PERMUTATION[place % 8][int(digit)])])
    return check == 0


def test_every_loinc_code_has_the_right_check_digit() -> None:
    codes = _codes(LOINC) - PRINTED_BY_US_CORE
    assert len(codes) > 500
    assert {code for code in codes if not _luhn_fits(code)} == set()


def test_every_snomed_code_has_the_right_check_digit() -> None:
    codes = _codes(SNOMED)
    assert len(codes) > 500
    assert {code for code in codes if not _verhoeff_fits(code)} == set()


def test_a_code_of_loinc_codes_one_measurement() -> None:
    counts = Counter(
        code
        for concept in load_concepts()
        if concept.kind == "measurement" and concept.name != "fasting glucose"
        for system, code in concept.codes
        if system == LOINC
    )
    assert [code for code, count in counts.items() if count > 1] == []


def test_names_and_parts_are_unique_and_exist() -> None:
    concepts = load_concepts()
    names = Counter((concept.kind, concept.name) for concept in concepts)
    assert [name for name, count in names.items() if count > 1] == []
    for concept in concepts:
        for part in concept.parts:
            assert (concept.kind, part) in names, (concept.name, part)


def test_no_two_concepts_of_statements_have_one_name() -> None:
    names = Counter(concept.name for concept in load_stated_concepts())
    assert [name for name, count in names.items() if count > 1] == []


def test_the_parts_of_panels_are_measured_in_a_unit_or_are_panels() -> None:
    panel = concept_named("measurement", "blood pressure")
    assert panel.parts == ("systolic blood pressure", "diastolic blood pressure")
    assert {concept_named("measurement", part).unit for part in panel.parts} == {
        "mm[Hg]"
    }
    lipids = concept_named("measurement", "lipid panel")
    assert lipids.parts[0] == "total cholesterol"
    assert len(lipids.parts) == 4


def test_every_unit_of_a_measurement_is_known_or_has_no_other_form() -> None:
    dimensionless = {"{T-score}", "{logmar}", "{PackYears}", "[arb'U]/mL"}
    units = {concept.unit for concept in load_concepts()} - {None} - dimensionless
    assert {unit for unit in units if unit and ucum_unit(unit) != unit} == set()


def test_a_class_has_the_ingredients_and_codes_of_its_subclasses() -> None:
    antibiotic = concept_named("drug_class", "antibiotic")
    penicillin = concept_named("drug_class", "penicillin")
    assert set(penicillin.ingredients) < set(antibiotic.ingredients)
    assert set(penicillin.codes) < set(antibiotic.codes)
    thinner = concept_named("drug_class", "blood thinner")
    assert {"warfarin", "apixaban", "enoxaparin", "clopidogrel"} <= set(
        thinner.ingredients
    )


def test_conversions_belong_to_measurements_and_known_units() -> None:
    for kind, name, *values in read_rows(DATA / "conversions.tsv", 6, optional=2):
        concept = None if name == "*" else concept_named("measurement", name)
        if kind == "line":
            there = convert(40, values[0], values[1], concept)
            assert there is not None
            assert convert(there, values[1], values[0], concept) == pytest.approx(40)


_RELATIONS_OF_OTHERS = frozenset(
    {"superseded by", "worst", "doses a day", "relative group", "relative code"}
    | {"family history code", "site within"}
)


def test_what_relations_name_are_concepts() -> None:
    names = {concept.name for concept in load_concepts()}
    stated = {concept.name for concept in load_stated_concepts()}
    kinds = set(get_args(ConceptKind))
    for relation, name, others in read_rows(DATA / "relations.tsv", 3):
        if relation == "measurements by kind":
            assert set(split_cell(others)) <= names, name
        elif relation == "measured state":
            assert {name, split_cell(others)[0]} <= names, name
            assert measured_state(name) is not None
        elif relation in {"kinds", "not a kind of"}:
            assert {name, *split_cell(others)} <= names | stated | kinds, name
        elif relation in {"observation by diagnosis", "not the same", "usual range"}:
            assert name in names
        elif relation not in _RELATIONS_OF_OTHERS:
            assert {name, *split_cell(others)} <= names, name
    assert set(related("worst")) <= names
    conditions = related("condition of measurement")
    assert all(concept_named("measurement", name) for name in conditions)
    assert all(concept_named("condition", name) for (name,) in conditions.values())


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_every_table_says_who_wrote_it_and_what_its_columns_are(table: Path) -> None:
    lines = table.read_text(encoding="utf-8").splitlines()
    header = [line for line in lines if line.startswith("#")]
    assert re.search(
        "written for (?:archqa|this project)", " ".join(header), re.IGNORECASE
    )
    columns = [line.count("\t") for line in header if "\t" in line]
    rows = [line for line in lines if line and not line.startswith("#")]
    assert max(line.count("\t") for line in rows) == (columns[-1] if columns else 0)
    assert all(
        cell and cell == cell.strip() for line in rows for cell in line.split("\t")[:2]
    )


def test_the_licences_of_the_code_systems_stand_in_the_tables() -> None:
    loinc = (
        "This material contains content from LOINC (http://loinc.org). LOINC is copyright © "
        "Regenstrief Institute, Inc. and the Logical Observation Identifiers Names and Codes "
        "(LOINC) Committee and is available at no cost under the license at "
        "http://loinc.org/license."
    )
    assert loinc in (DATA / "tests.tsv").read_text(encoding="utf-8")
    for table in ("conditions.tsv", "procedures.tsv"):
        assert (
            "used by permission of SNOMED International" in (DATA / table).read_text()
        )
    drugs = (DATA / "drugs.tsv").read_text(encoding="utf-8")
    assert "courtesy of the U.S. National Library of Medicine" in drugs


def test_no_form_stands_twice_in_one_row() -> None:
    for concept in load_concepts():
        repeated = [each for each, count in Counter(concept.forms).items() if count > 1]
        assert repeated == [], concept.name


def test_every_form_is_found_as_its_concept() -> None:
    for concept in load_concepts():
        for form in concept.forms:
            text = form.removeprefix("=")
            assert concept.name in {
                match.concept.name for match in find_concepts(text)
            }, form


def test_every_form_of_a_statement_is_found_as_its_concept_or_hidden_by_its_opposite() -> (
    None
):
    for concept in load_stated_concepts():
        for relation, forms in concept.stated:
            for form in forms:
                text = form.replace("#", "7").replace("*", "").replace(" .. ", " xx ")
                relations = {mention.relation for mention in mentions_of(concept, text)}
                assert relations & {relation, Relation.OPPOSITE}, (concept.name, form)


def test_rules_of_classes_name_known_dose_forms() -> None:
    uses = {use for use, _ in read_rows(DATA / "display_words.tsv", 2)}
    for _, _, rules, _ in read_rows(DATA / "drug_classes.tsv", 4):
        used = {rule.partition("@")[2].lstrip("-") for rule in split_cell(rules)} - {""}
        assert {f"form {form}" for form in used} <= uses


def test_alternatives_and_options_are_written_out() -> None:
    assert list(expand_form("(high/elevated) bp")) == ["high bp", "elevated bp"]
    assert list(expand_form("[the] pill[s]")) == [
        "pill",
        "pills",
        "the pill",
        "the pills",
    ]
    assert list(expand_form("lipoprotein(a)")) == ["lipoprotein(a)"]


def test_brands_of_the_glossary_are_brands_of_their_drugs() -> None:
    drugs = {concept.name for concept in load_concepts() if concept.kind == "drug"}
    for entry in load_glossary().values():
        if entry.meaning in drugs:
            assert ingredients_of(entry.term) == (entry.meaning,), entry.term


def test_the_kinds_of_concepts_that_queries_search_are_those_of_the_tables() -> None:
    assert {concept.kind for concept in load_concepts()} == set(ALL_CONCEPT_KINDS)


def test_all_tables_load_in_half_a_second() -> None:
    """The fastest of three fresh processes: a busy machine slows single ones."""
    program = (
        "import time; from archqa.terminology.concepts import find_concepts, find_mentions; "
        "from archqa.terminology.drugs import ingredients_of; "
        "start = time.process_time(); find_concepts('a1c'); find_mentions('no fever'); "
        "ingredients_of('aspirin'); print(time.process_time() - start)"
    )
    times = []
    for _ in range(3):
        command = [sys.executable, "-c", program]
        run = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        )
        times.append(float(run.stdout))
    assert min(times) < 0.5
