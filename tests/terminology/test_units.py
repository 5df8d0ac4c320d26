"""Conversion of values between units, and silence where a conversion is not known."""

import pytest

from archqa.terminology.concepts import concept_named
from archqa.terminology.units import convert, ucum_unit


@pytest.mark.parametrize(
    ("name", "value", "unit", "to_unit", "expected"),
    [
        ("glucose", 100, "mg/dL", "mmol/L", 5.551),
        ("glucose", 7.0, "mmol/L", "mg/dL", 126.1),
        ("total cholesterol", 200, "mg/dL", "mmol/L", 5.172),
        ("triglycerides", 150, "mg/dL", "mmol/L", 1.694),
        ("creatinine", 1.0, "mg/dL", "umol/L", 88.40),
        ("creatinine", 88.4, "µmol/L", "mg/dL", 1.0),
        ("urea nitrogen", 14, "mg/dL", "mmol/L", 4.998),
        ("uric acid", 6.0, "mg/dL", "umol/L", 356.9),
        ("total bilirubin", 1.0, "mg/dL", "umol/L", 17.10),
        ("calcium", 10.0, "mg/dL", "mmol/L", 2.495),
        ("magnesium", 2.0, "mg/dL", "meq/L", 1.646),
        ("potassium", 4.2, "mEq/L", "mmol/L", 4.2),
        ("hemoglobin", 14.0, "g/dL", "mmol/L", 8.688),
        ("hemoglobin", 140, "g/L", "g/dL", 14.0),
        ("vitamin d", 30, "ng/mL", "nmol/L", 74.88),
        ("body weight", 70, "kg", "lb", 154.32),
        ("body weight", 180, "lbs", "kg", 81.65),
        ("body height", 170, "cm", "in", 66.93),
        ("body height", 5.5, "ft", "cm", 167.64),
        ("body temperature", 98.6, "[degF]", "Cel", 37.0),
        ("body temperature", 38.5, "°C", "°F", 101.3),
        ("body temperature", 310.15, "K", "Cel", 37.0),
        ("hemoglobin a1c", 53, "mmol/mol", "%", 7.0),
        ("hemoglobin a1c", 6.5, "%", "mmol/mol", 47.5),
        ("urine albumin/creatinine ratio", 3.39, "mg/mmol", "mg/g", 29.97),
        ("white blood cells", 7.5, "K/uL", "10*9/L", 7.5),
        ("white blood cells", 7500, "/uL", "10*3/uL", 7.5),
        ("troponin i", 14, "ng/L", "ng/mL", 0.014),
        ("c-reactive protein", 1.2, "mg/dL", "mg/L", 12.0),
        ("systolic blood pressure", 16, "kPa", "mm[Hg]", 120.0),
        ("thyroid stimulating hormone", 2.5, "uIU/mL", "m[IU]/L", 2.5),
        ("ferritin", 50, "ug/L", "ng/mL", 50),
        ("heart rate", 72, "bpm", "/min", 72),
        ("estimated glomerular filtration rate", 60, "mL/min", "mL/min/{1.73_m2}", 60),
    ],
)
def test_a_value_converts(
    name: str, value: float, unit: str, to_unit: str, expected: float
) -> None:
    converted = convert(value, unit, to_unit, concept_named("measurement", name))
    assert converted == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "unit", "to_unit"),
    [
        ("glucose", "mg/dL", "furlongs"),
        ("glucose", "", "mmol/L"),
        ("glucose", "mg/dL", "kg"),
        ("ferritin", "ng/mL", "pmol/L"),
        ("glucose", "%", "mmol/mol"),
        ("creatinine", "mL/min", "mL/min/{1.73_m2}"),
        ("urine albumin", "mg/mmol", "mg/g"),
        ("glucose", "mg/dL", "meq/L"),
        ("anion gap", "mg/dL", "mmol/L"),
        ("d-dimer", "ug/mL FEU", "ng/mL"),
        ("phosphate", "mg/dL", "meq/L"),
    ],
)
def test_an_unknown_conversion_is_none(name: str, unit: str, to_unit: str) -> None:
    assert convert(1.0, unit, to_unit, concept_named("measurement", name)) is None


def test_without_a_concept_only_units_of_one_quantity_convert() -> None:
    assert convert(1, "g/dL", "g/L") == pytest.approx(10)
    assert convert(212, "[degF]", "Cel") == pytest.approx(100)
    assert convert(100, "mg/dL", "mmol/L") is None


@pytest.mark.parametrize(
    ("written", "ucum"),
    [
        ("mmHg", "mm[Hg]"),
        ("MG/DL", "mg/dL"),
        ("mEq/L", "meq/L"),
        ("K/uL", "10*3/uL"),
        ("m/uL", "10*6/uL"),
        ("IU/L", "U/L"),
        ("μmol/L", "umol/L"),
        ("insp/min", "/min"),
        ("sec", "s"),
        ("mystery", None),
        ("", None),
    ],
)
def test_units_have_one_ucum_code(written: str, ucum: str | None) -> None:
    assert ucum_unit(written) == ucum
