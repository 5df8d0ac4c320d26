"""Arithmetic, clocks, doses and readings of instructions, each by itself."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archqa.agents.tools.calculator import CalculationError, calculate
from archqa.errors import Unusable
from archqa.tasks.medagentbench.clock import (
    age_on,
    format_datetime,
    parse_lookback,
    parse_next_day_time,
    parse_now,
    subtract_years,
)
from archqa.tasks.medagentbench.dosing import Dose, parse_dosing
from archqa.tasks.medagentbench.instruction import parse_instruction
from archqa.tasks.medagentbench.write_checks import TaskText, same_unit
from archqa.tasks.medagentbench.write_intents import (
    LOINC,
    MedicationOrder,
    PayloadFormat,
    ServiceOrder,
    VitalSign,
)
from tests.tasks.medagentbench.invented import MAGNESIUM, POTASSIUM, task

NOW = datetime(2024, 2, 29, 23, 30, tzinfo=UTC)


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
    assert parse_now("It is 2024-02-29T23:30:00-05:00 now").utcoffset() == timedelta(hours=-5)
    with pytest.raises(Unusable, match="names no time"):
        parse_now("The code is MG.")


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("within last 24 hours", 24),
        ("over the past 3 days", 72),
        ("in the last 30 minutes", 0.5),
        ("ever", None),
    ],
)
def test_spans_are_read(text: str, hours: float | None) -> None:
    lookback = parse_lookback(text)
    assert (lookback.total_seconds() / 3600 if lookback else None) == hours


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("the next day at 8am", "2024-03-01T08:00:00+00:00"),
        ("tomorrow at 12:30 pm", "2024-03-01T12:30:00+00:00"),
        ("the following day at 12am", "2024-03-01T00:00:00+00:00"),
        ("at 8am", None),
    ],
)
def test_the_next_morning_is_a_day_later(text: str, time: str | None) -> None:
    next_time = parse_next_day_time(NOW, text)
    assert (format_datetime(next_time) if next_time else None) == time


def test_ages_and_years_know_leap_days() -> None:
    assert [age_on(born, NOW) for born in ("2000-02-29", "2000-03-01", "2024-02-29")] == [24, 23, 0]
    assert subtract_years(NOW, 1).date().isoformat() == "2023-02-28"
    with pytest.raises(Unusable, match="date of birth"):
        age_on("no date", NOW)


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
    assert dosing.dose_for(value) == (None if amount is None else Dose(amount, "mEq", "oral"))


def test_other_tables_are_read_too_and_prose_is_none() -> None:
    text = "(1) phosphate 2.0 to 2.5 mg/dL: IV: 10 mmol over 120 minutes. (2) <2.0 mg/dL: IV: 20 mmol over 4 hours"
    dosing = parse_dosing(text)
    assert dosing is not None
    assert dosing.dose_for(1.2) == Dose(20, "mmol", "IV", 4)
    assert dosing.dose_for(2.5) == Dose(10, "mmol", "IV", 2)
    assert parse_dosing("Give what seems right.") is None


def test_instructions_are_read_by_general_rules() -> None:
    row = task(9, "AB1234567")
    parsed = parse_instruction(TaskText(row["instruction"], row["context"]))
    assert parsed.patient == "AB1234567"
    assert parsed.codes == {"ndc": "40032-917-01", "loinc": "2823-3", "lab": "K"}
    assert parsed.code_names == {"ndc": "potassium", "loinc": "serum potassium level"}
    assert (parsed.asks_to_order, parsed.lookback, parsed.max_age_years) == (True, None, None)
    row = task(10, "S1234567")
    parsed = parse_instruction(TaskText(row["instruction"], row["context"]))
    assert (parsed.codes["loinc"], parsed.codes["lab"], parsed.max_age_years) == (
        "4548-4",
        "A1C",
        1,
    )


def test_units_that_mean_the_same_are_the_same() -> None:
    assert same_unit("mmol/L", "mEq/L")
    assert not same_unit("mmol/L", "mg/dL")


def test_both_shapes_of_every_write() -> None:
    vital = VitalSign(
        patient="S1", at="2023-11-13T10:15:00+00:00", flowsheet="BP", value="118/77 mmHg"
    )
    order = MedicationOrder(
        patient="S1", at=vital.at, ndc="1-2-3", name="it", route="IV", dose=4, unit="g", hours=2
    )
    test = ServiceOrder(
        patient="S1",
        at=vital.at,
        system=LOINC,
        code="2823-3",
        name="K",
        note="please",
        when=vital.at,
    )
    assert order.payload(PayloadFormat.BENCHMARK)["dosageInstruction"][0] == {
        "route": "IV",
        "doseAndRate": [
            {"doseQuantity": {"value": 4, "unit": "g"}, "rateQuantity": {"value": 2, "unit": "h"}}
        ],
    }
    r4 = order.payload(PayloadFormat.R4)["dosageInstruction"][0]
    assert r4["route"] == {"text": "IV"}
    assert (
        r4["doseAndRate"][0]["rateQuantity"]["value"],
        r4["doseAndRate"][0]["rateQuantity"]["unit"],
    ) == (2, "g/h")
    assert test.payload(PayloadFormat.BENCHMARK)["note"] == {"text": "please"}
    assert test.payload(PayloadFormat.R4)["note"] == [{"text": "please"}]
    assert (
        vital.payload(PayloadFormat.BENCHMARK)["category"][0]["coding"][0]["system"]
        == "http://hl7.org/fhir/observation-category"
    )
