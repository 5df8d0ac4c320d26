"""Arithmetic, clocks, doses and payloads of writes, by themselves."""

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archqa.agents.calculator import CalculationError, calculate
from archqa.errors import Unusable
from archqa.tasks.medagentbench.dosing import Dose, parse_dosing
from archqa.tasks.medagentbench.session import format_datetime, parse_now
from archqa.tasks.medagentbench.settings import PayloadFormat
from archqa.tasks.medagentbench.tools import MedicationArgs, ServiceArgs, VitalArgs
from archqa.tasks.medagentbench.write_checks import same_unit
from tests.tasks.medagentbench.invented import MAGNESIUM, POTASSIUM


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(3.5 - 3.2) / 0.1 * 10", 30),
        ("-2 ** 2", -4),
        ("7 // 2 + 7 % 2", 4),
        ("round(2.345, 2)", 2.35),
        ("mean([90, 110, 115])", 105),
        ("max(1, 2) - min([3, 4])", -1),
        ("sum([0.1] ) + sqrt(16)", 4.1),
        ("3.4 < 3.5", True),
    ],
)
def test_expressions_have_their_values(expression: str, value: float) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    ["", "x", "().__class__", "'a' * 9", "10 ** 100", "9 ** 9 ** 9", "1 / 0", "[1] * 10 ** 9", "mean([])", "sqrt(-1)",
     "round(1, ndigits=2)", "open('/etc/passwd')", "1" * 501, "max(1)", "lambda: 1", "1 if 1 else 2", "1e308 * 10"],
)  # fmt: skip
def test_what_is_no_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(CalculationError):
        calculate(expression)


@given(st.text(alphabet="0123456789.+-*/%()[], meanroudsqt", max_size=40))
def test_nothing_but_a_number_or_a_refusal_comes_of_any_text(expression: str) -> None:
    with contextlib.suppress(CalculationError):
        assert isinstance(calculate(expression), bool | int | float)


def test_times_are_relative_to_the_clock_of_the_task() -> None:
    now = parse_now("It's 2023-11-13T10:15:00+00:00 now, and so on.")
    assert format_datetime(now) == "2023-11-13T10:15:00+00:00"
    assert parse_now("It is 2024-02-29T23:30:00-05:00 now").utcoffset() == timedelta(
        hours=-5
    )
    with pytest.raises(Unusable, match="names no time"):
        parse_now("The code is MG.")


def test_ages_know_leap_days() -> None:
    now = {"now": "2024-02-29T23:30:00+00:00"}
    born = ("2000-02-29", "2000-03-01", "2024-02-29")
    assert [calculate(f"age('{day}', now)", now) for day in born] == [24, 23, 0]


@pytest.mark.parametrize(
    ("value", "dose"),
    [
        (0.5, Dose(4, "g", "IV", 4)), (0.99, Dose(4, "g", "IV", 4)), (1.0, Dose(2, "g", "IV", 2)),
        (1.49, Dose(2, "g", "IV", 2)), (1.5, Dose(1, "g", "IV", 1)), (1.9, Dose(1, "g", "IV", 1)), (1.91, None),
    ],
)  # fmt: skip
def test_doses_by_a_table_of_ranges(value: float, dose: Dose | None) -> None:
    dosing = parse_dosing(MAGNESIUM)
    assert dosing is not None
    assert dosing.measure == "mg/dL"
    assert dosing.dose_for(value) == dose


@pytest.mark.parametrize(
    ("value", "amount"), [(3.4, 10), (3.25, 25), (2.7, 80), (3.5, None), (4.0, None)]
)
def test_doses_by_steps_below_a_goal(value: float, amount: float | None) -> None:
    dosing = parse_dosing(POTASSIUM)
    assert dosing is not None
    assert dosing.dose_for(value) == (
        None if amount is None else Dose(amount, "mEq", "oral")
    )


def test_other_tables_are_read_too_and_prose_is_none() -> None:
    text = "(1) phosphate 2.0 to 2.5 mg/dL: IV: 10 mmol over 120 minutes. (2) <2.0 mg/dL: IV: 20 mmol over 4 hours"
    dosing = parse_dosing(text)
    assert dosing is not None
    assert dosing.dose_for(1.2) == Dose(20, "mmol", "IV", 4)
    assert dosing.dose_for(2.5) == Dose(10, "mmol", "IV", 2)
    assert parse_dosing("Give what seems right.") is None


def test_units_that_mean_the_same_are_the_same() -> None:
    assert same_unit("mmol/L", "mEq/L")
    assert not same_unit("mmol/L", "mg/dL")


def test_both_shapes_of_every_write() -> None:
    at = "2023-11-13T10:15:00+00:00"
    why = ("instruction: give it now",)
    vital = VitalArgs(patient="S1", flowsheet="BP", value="118/77 mmHg", evidence=why)
    order = MedicationArgs(
        patient="S1",
        ndc="1-2-3",
        name="it",
        route="IV",
        dose=4,
        unit="g",
        hours=2,
        evidence=why,
    )
    test = ServiceArgs(
        patient="S1",
        system="http://loinc.org",
        code="2823-3",
        name="K",
        note="please",
        when=at,
        evidence=why,
    )
    assert order.payload(PayloadFormat.BENCHMARK, at)["dosageInstruction"][0] == {
        "route": "IV",
        "doseAndRate": [
            {
                "doseQuantity": {"value": 4, "unit": "g"},
                "rateQuantity": {"value": 2, "unit": "h"},
            }
        ],
    }
    r4 = order.payload(PayloadFormat.R4, at)["dosageInstruction"][0]
    assert r4["route"] == {"text": "IV"}
    assert (
        r4["doseAndRate"][0]["rateQuantity"]["value"],
        r4["doseAndRate"][0]["rateQuantity"]["unit"],
    ) == (2, "g/h")
    assert test.payload(PayloadFormat.BENCHMARK, at)["note"] == {"text": "please"}
    assert test.payload(PayloadFormat.R4, at)["note"] == [{"text": "please"}]
    assert (
        vital.payload(PayloadFormat.BENCHMARK, at)["category"][0]["coding"][0]["system"]
        == "http://hl7.org/fhir/observation-category"
    )
