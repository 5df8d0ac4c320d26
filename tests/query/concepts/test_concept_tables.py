"""The tables: check digits, references between rows, sources and licences, speed."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from archqa.core.tables import read_rows, split_cell
from archqa.query.concepts import concept_named, convert, find_concepts, load_concepts, ucum_unit

DATA = Path("query/concepts/data")
ROOT = Path(__file__).resolve().parents[3]
TABLES = sorted((ROOT / "archqa" / DATA).glob("*.tsv"))
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
    concepts = [named.concept for named in load_concepts()]
    codes = [code for concept in concepts for code in (*concept.codes, *concept.past_codes)]
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
        for named in load_concepts()
        if named.concept.kind == "measurement" and named.concept.name != "fasting glucose"
        for system, code in named.concept.codes
        if system == LOINC
    )
    assert [code for code, count in counts.items() if count > 1] == []


def test_names_and_parts_are_unique_and_exist() -> None:
    concepts = [named.concept for named in load_concepts()]
    names = Counter((concept.kind, concept.name) for concept in concepts)
    assert [name for name, count in names.items() if count > 1] == []
    for concept in concepts:
        for part in concept.parts:
            assert (concept.kind, part) in names, (concept.name, part)


def test_the_parts_of_panels_are_measured_in_a_unit_or_are_panels() -> None:
    panel = concept_named("measurement", "blood pressure")
    assert panel.parts == ("systolic blood pressure", "diastolic blood pressure")
    assert {concept_named("measurement", part).unit for part in panel.parts} == {"mm[Hg]"}
    lipids = concept_named("measurement", "lipid panel")
    assert lipids.parts[0] == "total cholesterol"
    assert len(lipids.parts) == 4


def test_every_unit_of_a_measurement_is_known_or_has_no_other_form() -> None:
    dimensionless = {"{T-score}", "{logmar}", "{PackYears}", "[arb'U]/mL"}
    units = {named.concept.unit for named in load_concepts()} - {None} - dimensionless
    assert {unit for unit in units if unit and ucum_unit(unit) != unit} == set()


def test_a_class_has_the_ingredients_and_codes_of_its_subclasses() -> None:
    antibiotic = concept_named("drug_class", "antibiotic")
    penicillin = concept_named("drug_class", "penicillin")
    assert set(penicillin.ingredients) < set(antibiotic.ingredients)
    assert set(penicillin.codes) < set(antibiotic.codes)
    thinner = concept_named("drug_class", "blood thinner")
    assert {"warfarin", "apixaban", "enoxaparin", "clopidogrel"} <= set(thinner.ingredients)


def test_conversions_belong_to_measurements_and_known_units() -> None:
    for name, *_ in read_rows(DATA / "molar_masses.tsv", 3):
        assert concept_named("measurement", name)
    for name, from_unit, to_unit, *_ in read_rows(DATA / "linear_conversions.tsv", 5):
        concept = None if name == "*" else concept_named("measurement", name)
        there = convert(40, from_unit, to_unit, concept)
        assert there is not None
        assert convert(there, to_unit, from_unit, concept) == pytest.approx(40)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_every_table_names_its_sources_and_has_even_rows(table: Path) -> None:
    lines = table.read_text(encoding="utf-8").splitlines()
    header = [line for line in lines if line.startswith("#")]
    assert lines[0].startswith("# ")
    assert any("Source" in line for line in header)
    columns = [line.count("\t") for line in header if "\t" in line][-1] + 1
    optional = 1 if table.stem in ("brands", "ingredients") else 0
    if table.stem == "display_words":
        columns = 2
    for row in read_rows(table, columns, optional):
        assert all(row[: columns - optional]), row


def test_the_licences_of_the_code_systems_stand_in_the_tables() -> None:
    loinc = (
        "This material contains content from LOINC (http://loinc.org). LOINC is copyright © "
        "Regenstrief Institute, Inc. and the Logical Observation Identifiers Names and Codes "
        "(LOINC) Committee and is available at no cost under the license at "
        "http://loinc.org/license."
    )
    assert loinc in (ROOT / "archqa" / DATA / "measurements.tsv").read_text(encoding="utf-8")
    for table in ("conditions.tsv", "procedures.tsv"):
        assert (
            "used by permission of SNOMED International"
            in (ROOT / "archqa" / DATA / table).read_text()
        )
    assert "courtesy of the U.S. National Library of Medicine" in (
        ROOT / "archqa" / DATA / "ingredients.tsv"
    ).read_text(encoding="utf-8")


def test_no_phrase_stands_twice_in_one_row() -> None:
    for named in load_concepts():
        repeated = [each for each, count in Counter(named.phrases).items() if count > 1]
        assert repeated == [], named.concept.name


def test_every_phrase_is_found_as_its_concept() -> None:
    for concept, phrases in load_concepts():
        for phrase in phrases:
            text = phrase.removeprefix("=")
            found = {match.concept.name for match in find_concepts(text)}
            assert concept.name in found, phrase


def test_rules_of_classes_name_known_forms() -> None:
    forms = {form for form, _ in read_rows(DATA / "forms.tsv", 2)}
    for _, _, rules, _ in read_rows(DATA / "drug_classes.tsv", 4):
        used = {rule.partition("@")[2].lstrip("-") for rule in split_cell(rules)} - {""}
        assert used <= forms


def test_all_tables_load_in_a_fraction_of_a_second() -> None:
    """The fastest of three fresh processes: a busy machine slows single ones."""
    program = (
        "import time; from archqa.query.concepts import find_concepts, ingredients_of; "
        "start = time.process_time(); find_concepts('a1c'); ingredients_of('aspirin'); "
        "print(time.process_time() - start)"
    )
    times = []
    for _ in range(3):
        command = [sys.executable, "-c", program]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        times.append(float(run.stdout))
    assert min(times) < 0.15
