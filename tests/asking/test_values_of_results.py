"""Bounds, ranges, numbers in texts, failed results, recorded precision, changes and durations."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.fhir import Store
from tests.fhir.invented import codeable_concept, observation, patient
from tests.query.clinic import LOINC, SNOMED, Resource, coded, resource

Ask = Callable[[str], archqa.Answer]

TESTS = {
    "lactate": ("2524-7", "Lactate [Moles/volume] in Serum or Plasma"),
    "sodium": ("2951-2", "Sodium [Moles/volume] in Serum or Plasma"),
    "CRP": ("1988-5", "C reactive protein [Mass/volume] in Serum or Plasma"),
    "calcium": ("17861-6", "Calcium [Mass/volume] in Serum or Plasma"),
    "blood pressure": ("85354-9", "Blood pressure panel"),
    "covid": (
        "94500-6",
        "SARS-CoV-2 (COVID-19) RNA [Presence] in Respiratory specimen",
    ),
}


def measured(name: str, test: str, day: str, **value: Any) -> Resource:
    code, display = TESTS[test]
    return observation(
        name, "p", codeable_concept(code, display, LOINC), f"{day}T08:00:00Z", **value
    )


def number(value: float, unit: str = "mmol/L", comparator: str = "") -> Resource:
    quantity: Resource = {"value": value, "unit": unit}
    if comparator:
        quantity["comparator"] = comparator
    return {"valueQuantity": quantity}


def procedure(name: str, display: str, start: str, end: str) -> Resource:
    return resource(
        "Procedure",
        name,
        status="completed",
        code=coded(f"1{name}", display, SNOMED),
        performedPeriod={"start": start, "end": end},
    )


@pytest.fixture
def asking(tmp_path: Path) -> Callable[..., Ask]:
    """A function that loads resources and asks about them."""

    def load(*resources: Resource | str) -> Ask:
        lines = [json.dumps(patient("p"))]
        for each in resources:
            lines.append(each if isinstance(each, str) else json.dumps(each))
        file = tmp_path / "record.ndjson"
        file.write_text("\n".join(lines), encoding="utf-8")
        with Store.open(tmp_path / "record.db", create=True) as store:
            assert not store.load([file]).mistakes

        def ask(question: str) -> archqa.Answer:
            return archqa.ask(
                question,
                patient="p",
                record=tmp_path / "record.db",
                now="2025-06-01T12:00:00",
            )

        return ask

    return load


class TestBounds:
    def test_a_bound_that_does_not_decide_is_neither_yes_nor_no(
        self, asking: Callable[..., Ask]
    ) -> None:
        ask = asking(measured("b", "CRP", "2025-01-02", **number(5, "mg/L", "<")))
        assert ask("Was his CRP ever above 3?").text.startswith("Cannot be told: ")
        assert "<5 mg/L" in ask("Was his CRP ever above 3?").text
        assert ask("Was his CRP ever above 5?").text.startswith("No: ")
        assert ask("Was his CRP ever below 6?").text.startswith("Yes: ")

    def test_one_certain_result_suffices_for_a_yes(
        self, asking: Callable[..., Ask]
    ) -> None:
        ask = asking(
            measured("b", "CRP", "2025-01-02", **number(200, "mg/L", ">")),
            measured("n", "CRP", "2025-01-03", **number(280, "mg/L")),
        )
        answer = ask("Was his CRP ever above 250?")
        assert answer.text.startswith("Yes: ")
        assert any(">200 mg/L" in remark for remark in answer.remarks)

    def test_what_may_exceed_an_extreme_is_named(
        self, asking: Callable[..., Ask]
    ) -> None:
        ask = asking(
            measured("b", "lactate", "2025-01-02", **number(15, comparator=">")),
            measured("n", "lactate", "2025-01-03", **number(17)),
            measured("l", "lactate", "2025-01-04", **number(1, comparator="<")),
        )
        highest = ask("What was his highest lactate?")
        assert "17 mmol/L" in highest.text
        assert highest.remarks == ("May be higher: Lactate >15 mmol/L on 2025-01-02.",)
        assert "<1 mmol/L" in ask("What was his lowest lactate?").text

    @pytest.mark.parametrize(
        ("comparator", "words"),
        [(">", "at least 10"), ("<", "at most 10"), ("~", "not exact, about 10")],
    )
    def test_an_average_over_a_bound_is_not_exact(
        self, asking: Callable[..., Ask], comparator: str, words: str
    ) -> None:
        ask = asking(
            measured("b", "lactate", "2025-01-02", **number(15, comparator=comparator)),
            measured("n", "lactate", "2025-01-03", **number(5)),
        )
        assert f"{words} mmol/L" in ask("What was his average lactate?").text

    def test_a_change_to_a_bound_is_at_least_so_much_or_not_known(
        self, asking: Callable[..., Ask]
    ) -> None:
        ask = asking(
            measured("n", "lactate", "2025-01-01", **number(5)),
            measured("b", "lactate", "2025-01-02", **number(15, comparator=">")),
            measured("c", "lactate", "2025-01-03", **number(17)),
        )
        change = "How much did his last two lactate values change?"
        assert "whether it rose or fell cannot be told" in ask(change).text


class TestTexts:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("151 mmol/L (H)", "151 mmol/L (H)"),
            ("151,5 mmol/L", "151,5 mmol/L"),
            ("> 150", "> 150"),
            ("greater than 150 mmol/L", "reater than 150 mmol/L"),
        ],
    )
    def test_a_number_in_a_text_is_compared(
        self, asking: Callable[..., Ask], text: str, shown: str
    ) -> None:
        ask = asking(
            measured("n", "sodium", "2024-01-02", **number(140)),
            measured("t", "sodium", "2025-01-02", valueString=text),
        )
        answer = ask("Was his sodium ever above 149?")
        assert answer.text.startswith("Yes: ")
        assert shown.replace(",", ".") in answer.text.replace(",", ".")
        assert answer.lines[0].citations == ("Observation/t",)

    @pytest.mark.parametrize("text", ["see comment", "1,234", "3 tubes", "12/30"])
    def test_a_text_without_a_certain_number_is_named_as_not_compared(
        self, asking: Callable[..., Ask], text: str
    ) -> None:
        ask = asking(
            measured("n", "sodium", "2024-01-02", **number(140)),
            measured("t", "sodium", "2025-01-02", valueString=text),
        )
        answer = ask("Was his sodium ever above 149?")
        assert answer.text.startswith("No: ")
        assert any(text in remark.lower() for remark in answer.remarks)

    def test_a_mark_behind_the_number_is_its_flag(
        self, asking: Callable[..., Ask]
    ) -> None:
        ask = asking(measured("t", "sodium", "2025-01-02", valueString="118 (LL)"))
        assert "low" in ask("Is his sodium low?").text

    def test_a_pressure_as_text_has_both_parts(
        self, asking: Callable[..., Ask]
    ) -> None:
        ask = asking(
            measured("t", "blood pressure", "2025-01-02", valueString="171/88 mmHg")
        )
        assert "171/88 mmHg" in ask("What was his last blood pressure?").text
        assert ask("Was his systolic ever above 170?").text.startswith("Yes: ")
        assert ask("Was his diastolic ever above 90?").text.startswith("No: ")


class TestOtherValues:
    def test_a_range_is_above_what_its_lower_end_is_above(
        self, asking: Callable[..., Ask]
    ) -> None:
        ends = {
            "low": {"value": 3, "unit": "mmol/L"},
            "high": {"value": 5, "unit": "mmol/L"},
        }
        ask = asking(measured("r", "lactate", "2025-01-02", valueRange=ends))
        assert "3 to 5 mmol/L" in ask("What was his last lactate?").text
        assert ask("Was his lactate ever above 2?").text.startswith("Yes: ")
        assert ask("Was his lactate ever above 6?").text.startswith("No: ")
        assert ask("Was his lactate ever above 4?").text.startswith("Cannot be told: ")

    def test_a_range_with_an_open_end_is_a_bound(
        self, asking: Callable[..., Ask]
    ) -> None:
        high = {"high": {"value": 2, "unit": "mmol/L"}}
        ask = asking(measured("r", "lactate", "2025-01-02", valueRange=high))
        assert "<=2 mmol/L" in ask("What was his last lactate?").text

    @pytest.mark.parametrize(("value", "verdict"), [(False, "No: "), (True, "Yes: ")])
    def test_a_boolean_answers_whether_a_test_was_positive(
        self, asking: Callable[..., Ask], value: bool, verdict: str
    ) -> None:
        ask = asking(measured("c", "covid", "2025-01-02", valueBoolean=value))
        assert ask("Was his covid test positive?").text.startswith(verdict)

    def test_a_value_that_cannot_be_read_is_said_to_be_recorded(
        self, asking: Callable[..., Ask]
    ) -> None:
        samples = {"origin": {"value": 0}, "period": 1, "dimensions": 1, "data": "1 2"}
        ask = asking(measured("s", "sodium", "2025-01-02", valueSampledData=samples))
        assert "ecorded as SampledData" in ask("What was his last sodium?").text

    def test_a_number_has_its_recorded_precision(
        self, asking: Callable[..., Ask]
    ) -> None:
        written = json.dumps(
            measured("c", "calcium", "2025-01-02", **number(9.5, "mg/dL"))
        )
        ask = asking(written.replace("9.5,", "9.50,"))
        assert "9.50 mg/dL" in ask("What was his last calcium?").text

    @pytest.mark.parametrize(
        "failed",
        [
            {"valueString": "Specimen hemolyzed"},
            {"status": "cancelled"},
            {"dataAbsentReason": coded("error", "Quantity not sufficient")},
        ],
    )
    def test_a_newer_result_that_failed_is_named_with_the_older_one(
        self, asking: Callable[..., Ask], failed: Resource
    ) -> None:
        ask = asking(
            measured("n", "sodium", "2024-01-02", **number(140)),
            measured("f", "sodium", "2025-01-02", **failed),
        )
        answer = ask("What was his last sodium?")
        assert "140 mmol/L on 2024-01-02" in answer.text
        assert answer.remarks[0].startswith("A newer result has no value: ")
        assert "2025-01-02" in answer.remarks[0]


class TestChangesAndDurations:
    @pytest.mark.parametrize(
        ("question", "change"),
        [
            ("How much did his last two sodium values change?", "4 mmol/L less"),
            (
                "How much did his sodium change over the last three measurements?",
                "1 mmol/L more",
            ),
            (
                "How much did his sodium change from the first to the last value?",
                "6 mmol/L more",
            ),
        ],
    )
    def test_a_change_over_the_last_values_uses_only_them(
        self, asking: Callable[..., Ask], question: str, change: str
    ) -> None:
        values = (130, 135, 140, 136)
        rows = []
        for month, value in enumerate(values, start=1):
            rows.append(
                measured(f"s{month}", "sodium", f"2025-0{month}-01", **number(value))
            )
        assert change in asking(*rows)(question).text

    def test_how_long_a_procedure_took_is_its_length(
        self, asking: Callable[..., Ask]
    ) -> None:
        ask = asking(
            procedure(
                "a", "Appendectomy", "2025-03-01T09:00:00Z", "2025-03-01T10:20:00Z"
            ),
            procedure(
                "v",
                "Mechanical ventilation",
                "2025-03-01T12:00:00Z",
                "2025-03-04T18:00:00Z",
            ),
        )
        took = ask("How long did the appendectomy take?").text
        assert took.startswith("1 hour and 20 minutes: Appendectomy")
        ventilated = ask("How long was he on the ventilator?").text
        assert ventilated.startswith("78.0 hours (3.2 days): Mechanical ventilation")
        assert ask("how long on the ventilator").text == ventilated
        until_now = ask("How long has he been on the ventilator?").text
        assert "78.0 hours (3.2 days): Mechanical ventilation" in until_now

    def test_the_verb_last_does_not_ask_for_the_latest(
        self, asking: Callable[..., Ask]
    ) -> None:
        ask = asking(
            procedure(
                "a",
                "Mechanical ventilation",
                "2025-03-01T09:00:00Z",
                "2025-03-01T10:20:00Z",
            ),
            procedure(
                "b",
                "Mechanical ventilation",
                "2025-03-05T12:00:00Z",
                "2025-03-05T14:10:00Z",
            ),
        )
        lasted = ask("How long did the mechanical ventilation last?").text
        assert "1 hour and 20 minutes" in lasted
        assert "2 hours and 10 minutes" in lasted
