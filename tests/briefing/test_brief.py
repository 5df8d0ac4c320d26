"""A patient's summary: what each section says, that it is cited, and that it is checked."""

from pathlib import Path

import pytest

import archqa
from archqa.briefing import brief as brief_module
from archqa.briefing.markdown import brief_markdown
from archqa.briefing.patient_rows import LineDraft, SectionDraft
from archqa.briefing.summary import SectionKind
from archqa.briefing.verification import text_problem
from archqa.briefing.visits import states_plan
from archqa.errors import CallerError
from archqa.settings import Settings
from tests.briefing.briefs import brief, lines_of
from tests.briefing.invented_chart import chart, condition, note, order
from tests.fhir.invented import (
    codeable_concept,
    medication,
    medication_request,
    observation,
)

Quantity = dict[str, object]


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> archqa.Brief:
    return brief(chart(tmp_path_factory.mktemp("chart")))


@pytest.mark.parametrize(
    ("section", "lines"),
    [
        (
            "problems",
            [
                "Chronic pain, since 2029-01-01 (active)",
                "Asthma, since 2010-03-01 (active), recorded 2 times, last on 2020-04-02",
            ],
        ),
        ("resolved", ["Sinusitis from 2030-01-02, resolved 2030-01-20"]),
        (
            "medicines",
            [
                "Metformin 850 mg Oral Tablet, twice a day, last ordered 2030-01-01 (active); "
                "the same in 2 orders since 2029-01-01, the order before: "
                "Metformin 500 mg Oral Tablet, once a day, ordered 2028-01-01"
            ],
        ),
        (
            "allergies",
            [
                "Allergy to Penicillin G, recorded 2012-05-06, reaction: Hives, "
                "severity: Moderate; High (active)"
            ],
        ),
        (
            "labs",
            [
                "Hemoglobin A1c 6.4 % on 2030-05-01 (high, reference range 4-5.6 %), "
                "rose from 6.1 % on 2029-05-01"
            ],
        ),
        (
            "vital_signs",
            ["Body Weight 80 kg on 2030-05-01, unchanged from 80 kg on 2029-05-01"],
        ),
        ("person", ["Female. She is 97 years old (born 1932-12-29)"]),
        (
            "visits",
            [
                "Encounter for symptom on 2030-05-01, for Cough",
                "Progress note, R. Doe MD on 2030-03-01 (known from a note)",
            ],
        ),
        (
            "procedures",
            [
                "Colonoscopy on 2021-07-08",
            ],
        ),
        (
            "medicine_changes",
            [
                "“3. Lisinopril stopped because of cough.” (Progress note, R. Doe MD, 2030-05-01)"
            ],
        ),
        (
            "follow_ups",
            [
                "“1. Recheck potassium in 2 weeks.” (Progress note, R. Doe MD, 2030-05-01)",
                "“RTC 4 wk.” (Progress note, R. Doe MD, 2030-05-01)",
            ],
        ),
    ],
)
def test_each_section_says_what_the_record_has(
    summary: archqa.Brief, section: str, lines: list[str]
) -> None:
    """Left out: what was entered in error, what is later, what is done, and repetitions."""
    assert lines_of(summary, section) == lines


def test_every_line_cites_evidence_that_is_shown(summary: archqa.Brief) -> None:
    shown = {evidence.id for evidence in summary.evidence}
    cited = {
        each
        for section in summary.sections
        for line in section.lines
        for each in line.citations
    }
    assert cited == shown
    assert all(line.citations for section in summary.sections for line in section.lines)
    sentence = next(
        each for each in summary.evidence if each.id == "DocumentReference/n1#3"
    )
    assert (sentence.kind, sentence.text) == (
        "sentence",
        "1. Recheck potassium in 2 weeks.",
    )


def test_the_same_record_and_time_give_the_same_summary(tmp_path: Path) -> None:
    record = chart(tmp_path)
    assert brief(record).as_json() == brief(record).as_json()


def test_what_is_not_recorded_is_said_in_one_line(tmp_path: Path) -> None:
    types = {
        "Condition",
        "MedicationRequest",
        "AllergyIntolerance",
        "Observation",
        "Encounter",
    }
    record = chart(tmp_path, without=(*types, "Procedure", "DocumentReference"))
    summary = brief(record)
    assert [section.name for section in summary.filled_sections] == ["person"]
    assert summary.nothing_recorded == (
        "Nothing recorded: allergies, code status and wishes, active problems, needs such as housing or transport, "
        "medicine orders, visits, vital signs, laboratory results, procedures, immunizations, "
        "problems resolved in the last 12 months, notes."
    )
    assert [evidence.id for evidence in summary.evidence] == ["Patient/p1"]


def test_notes_that_say_nothing_are_not_missing_notes(tmp_path: Path) -> None:
    silent = note("n9", "He feels well.", "2030-05-20")
    record = chart(tmp_path, silent, without=("DocumentReference",))
    assert brief(record).nothing_recorded.endswith(
        "Not in the notes of the last 24 months: medicines without an order, "
        "changes of medicines, follow-ups."
    )


def test_what_is_recorded_and_left_out_is_not_called_absent(tmp_path: Path) -> None:
    cleaning = {**_procedure(0), "code": codeable_concept("d1", "Dental cleaning")}
    record = chart(tmp_path, cleaning, without=("Procedure",))
    summary = brief(record)
    assert lines_of(summary, "procedures") == []
    assert "procedures" not in summary.nothing_recorded


def test_labels_of_a_life_come_only_by_name_and_needs_always(tmp_path: Path) -> None:
    life = [
        condition("x1", "Has a criminal record (finding)", "2029-01-01"),
        condition("x2", "Lack of access to transportation (finding)", "2029-01-01"),
        observation(
            "x3",
            "p1",
            codeable_concept("71802-3", "Housing status"),
            "2030-02-02",
            valueCodeableConcept={"text": "Homeless"},
        ),
    ]
    record = chart(tmp_path, *life)
    assert "criminal" not in str(brief(record).as_json())
    assert lines_of(brief(record), "social_needs") == [
        "Lack of access to transportation, since 2029-01-01 (active)",
        "Housing status: Homeless on 2030-02-02",
    ]
    assert lines_of(brief(record, sections=["circumstances"]), "circumstances") == [
        "Has a criminal record, since 2029-01-01 (active)",
        "Full-time employment, since 2028-01-01 (active)",
    ]


def test_a_treated_problem_comes_before_a_newer_one_that_nobody_treats(
    tmp_path: Path,
) -> None:
    problems = [
        condition("x1", "Hypothyroidism (disorder)", "2005-01-01"),
        condition("x2", "Tinnitus (disorder)", "2026-01-01"),
        condition("x3", "Gout (disorder)", "2024-01-01"),
    ]
    for position, problem in enumerate(problems):
        problem["code"]["coding"][0]["code"] = str(position)
    treatment = order(
        "m9",
        "levothyroxine 50 MCG",
        "2030-01-01",
        reasonReference=[{"reference": "Condition/x1"}],
    )
    visit = _visit(0) | {"reasonReference": [{"reference": "Condition/x3"}]}
    record = chart(tmp_path, *problems, treatment, visit, without=("Condition",))
    names = [line.partition(",")[0] for line in lines_of(brief(record), "problems")]
    assert names == ["Gout", "Hypothyroidism", "Tinnitus"]


def test_twenty_years_of_data_fit_on_one_page(tmp_path: Path) -> None:
    record = chart(tmp_path, *_twenty_years())
    page = brief_markdown(brief(record))
    height = sum(-(-len(line) // 120) or 1 for line in page.splitlines())
    assert len(page.splitlines()) <= height <= 60
    assert "more are recorded." in page
    assert "## Evidence" not in page


def _twenty_years() -> list[dict[str, object]]:
    """Each year: visits, results, problems, orders, allergies, procedures, notes."""
    rows: list[dict[str, object]] = []
    for year in range(2010, 2030):
        for month in range(1, 13):
            name = f"{year}-{month:02}"
            rows.append(_visit(0) | {"id": f"v{name}", "period": {"start": name}})
            for number in range(3):
                code = codeable_concept(f"t{month}{number}", f"Test {month} {number}")
                value: Quantity = {"value": year - 2000 + month, "unit": "mg/dL"}
                result = f"t{name}-{number}"
                rows.append(
                    observation(result, "p1", code, f"{name}-03", valueQuantity=value)
                )
        problem = condition(f"y{year}", f"Disorder {year} (disorder)", f"{year}-01-01")
        problem["code"]["coding"][0]["code"] = f"y{year}"
        rows += [problem, order(f"y{year}", f"Drug{year} 5 MG", f"{year}-02-02")]
        rows.append({**_procedure(year), "performedDateTime": f"{year}-03-03"})
        text = "\n".join(
            f"{item}. Recheck value {item} in {year}." for item in range(9)
        )
        rows.append(note(f"y{year}", text, f"{year}-12-01"))
    return rows


def test_chosen_sections_come_in_their_order_and_unknown_ones_are_refused(
    tmp_path: Path,
) -> None:
    record = chart(tmp_path)
    chosen = brief(record, sections=["labs", "vital-signs", "problems"])
    assert [section.name for section in chosen.sections] == [
        "problems",
        "vital_signs",
        "labs",
    ]
    with pytest.raises(CallerError, match="There is no section"):
        brief(record, sections=["moods"])


def test_what_is_later_than_the_visit_is_left_out(tmp_path: Path) -> None:
    earlier = archqa.brief(
        patient="p1", record=chart(tmp_path), now="2029-06-01", settings=Settings()
    )
    assert lines_of(earlier, "labs")[0].startswith(
        "Hemoglobin A1c 6.1 % on 2029-05-01 ("
    )
    assert lines_of(earlier, "follow_ups") == []


def test_without_a_status_no_problem_is_called_active(tmp_path: Path) -> None:
    visited = {"clinicalStatus": None, "onsetDateTime": None}
    diagnosis = condition(
        "c9", "Pneumonia", "", encounter={"reference": "Encounter/e1"}
    )
    diagnosis = {
        name: value for name, value in diagnosis.items() if name not in visited
    }
    record = chart(tmp_path, diagnosis, without=("Condition",))
    [section] = [each for each in brief(record).sections if each.name == "problems"]
    assert [line.text for line in section.lines] == [
        "Pneumonia, at the visit of 2030-05-01"
    ]
    assert "does not say which of these are current" in section.message


def test_products_that_are_current_side_by_side_are_no_change(tmp_path: Path) -> None:
    both = order("m9", "metformin 500 MG Oral Tablet", "2029-06-01")
    lines = lines_of(brief(chart(tmp_path, both)), "medicines")
    assert len(lines) == 2
    assert not any(
        "order before" in line for line in lines if line.startswith("Metformin 850")
    )


def test_where_no_medicine_is_current_the_last_orders_are_told_as_such(
    tmp_path: Path,
) -> None:
    ended = order("m9", "amoxicillin 500 MG Oral Capsule", "2029-06-01", "stopped")
    record = chart(tmp_path, ended, without=("MedicationRequest",))
    [section] = [each for each in brief(record).sections if each.name == "medicines"]
    assert section.message.startswith("No medicine order is current")
    assert section.lines[0].text.endswith("ordered 2029-06-01 (stopped)")


LINE = "Hemoglobin A1c 6.4 % on 2030-05-01, rose from 6.1 % on 2029-05-01"


@pytest.mark.parametrize(
    "text",
    [
        LINE.replace("6.4", "6.5"),
        LINE.replace("2029-05-01", "2029-05-02"),
        LINE.replace("rose", "fell"),
        LINE.replace("Hemoglobin A1c", "Metoprolol"),
        LINE.replace("Hemoglobin", "Glucose"),
        f"{LINE}, 3 times",
        f"{LINE}, fell from",
        LINE.replace("6.4", "2030"),
    ],
)
def test_a_line_that_its_evidence_does_not_confirm_never_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    cited = ("Observation/o2", "Observation/o1")
    drafts = SectionDraft((LineDraft(LINE, cited), LineDraft(text, cited)))
    kind = SectionKind("labs", "Results", lambda _: drafts, "results", 9)
    monkeypatch.setattr(brief_module, "chosen_sections", lambda _: (kind,))
    summary = brief(chart(tmp_path))
    assert lines_of(summary, "labs") == [LINE]
    assert summary.remarks == (
        "1 line of “Results” left out: what they cite does not confirm them.",
    )


def test_a_line_that_cites_what_is_not_in_the_record_never_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Date not recorded"
    drafts = SectionDraft((LineDraft(text, ("Condition/c99",)), LineDraft(text, ())))
    kind = SectionKind("problems", "Problems", lambda _: drafts, "problems", 9)
    monkeypatch.setattr(brief_module, "chosen_sections", lambda _: (kind,))
    assert lines_of(brief(chart(tmp_path)), "problems") == []


@pytest.mark.parametrize(
    "text",
    [
        "RTC 8 wk.",
        "F/U with cardiology",
        "Refer to hepatology.",
        "Biopsy result pending.",
        "Repeat ECG in 2 wk, hold at 60 mg.",
        "5. HBV booster due.",
    ],
)
def test_a_sentence_that_states_a_plan_is_a_follow_up(text: str) -> None:
    assert states_plan(text)


@pytest.mark.parametrize(
    "text",
    [
        "No follow-up needed.",
        "HCV antibody will stay positive for life; do not repeat it.",
        "Fell due to dizziness.",
        "Colonoscopy was done, he declined further tests.",
        "REFERRAL AND APPOINTMENT",
        "Lungs clear.",
        "Referral got lost twice.",
    ],
)
def test_what_is_denied_done_or_a_heading_is_none(text: str) -> None:
    assert not states_plan(text)


def test_a_date_after_the_note_is_a_follow_up(tmp_path: Path) -> None:
    text = (
        "Colonoscopy 02/2032.\nColonoscopy 02/2022.\nMRI on 3 May.\nCT on July 5, 2030."
    )
    record = chart(
        tmp_path, note("n9", text, "2030-05-20"), without=("DocumentReference",)
    )
    lines = lines_of(brief(record), "follow_ups")
    assert [line.partition("”")[0] for line in lines] == [
        "“Colonoscopy 02/2032.",
        "“CT on July 5, 2030.",
    ]


def test_long_lists_are_cut_and_say_how_much_there_is_more(tmp_path: Path) -> None:
    results = [_test_result(number) for number in range(25)]
    visits = [_visit(number) for number in range(7)]
    record = chart(tmp_path, *results, *visits, without=("DocumentReference",))
    summary = brief(record)
    sections = {section.name: section for section in summary.sections}
    assert len(sections["labs"].lines) == 14
    assert sections["labs"].message == "12 more are recorded."
    assert [line.text[-10:] for line in sections["visits"].lines[1:]] == [
        f"2029-01-0{day}" for day in (7, 6, 5)
    ]
    [labs] = brief(record, sections=["labs"]).sections
    assert len(labs.lines) == 26


def _test_result(number: int) -> dict[str, object]:
    code = codeable_concept(f"t{number}", f"Test {number}")
    return observation(
        f"t{number}", "p1", code, "2029-05-05", valueQuantity={"value": 1, "unit": "mg"}
    )


def _procedure(number: int) -> dict[str, object]:
    return {
        "resourceType": "Procedure",
        "id": f"r{number}",
        "status": "completed",
        "code": codeable_concept(f"r{number}", f"Repair {number}"),
        "subject": {"reference": "Patient/p1"},
        "performedDateTime": "2022-01-01",
    }


def _visit(number: int) -> dict[str, object]:
    return {
        "resourceType": "Encounter",
        "id": f"v{number}",
        "status": "finished",
        "class": {"code": "AMB"},
        "subject": {"reference": "Patient/p1"},
        "period": {"start": f"2029-01-0{number + 1}", "end": f"2029-01-0{number + 1}"},
    }


@pytest.mark.parametrize(
    ("written", "is_recent"), [("2028-06-03", True), ("2028-05-30", False)]
)
def test_notes_of_the_last_24_months_are_read(
    tmp_path: Path, written: str, is_recent: bool
) -> None:
    record = chart(
        tmp_path, note("n9", "RTC 9 wk.", written), without=("DocumentReference",)
    )
    assert bool(lines_of(brief(record), "follow_ups")) is is_recent


@pytest.mark.parametrize("drug", ["metoprolol", "Lipitor", "aspirin"])
def test_a_drug_that_is_not_cited_is_found_by_ingredient_and_brand(drug: str) -> None:
    assert text_problem(f"On {drug}.", ("Condition/c1",), "On medicines.")
    assert not text_problem("On atorvastatin.", ("Condition/c1",), "On Lipitor.")


def test_that_there_is_no_allergy_is_said_where_the_record_says_so(
    tmp_path: Path,
) -> None:
    denial = {
        "resourceType": "AllergyIntolerance",
        "id": "a9",
        "patient": {"reference": "Patient/p1"},
        "code": {"text": "No known allergies"},
        "recordedDate": "2029-01-01",
    }
    record = chart(tmp_path, denial, without=("AllergyIntolerance",))
    assert lines_of(brief(record), "allergies") == [
        "No known allergies are recorded (stated on 2029-01-01)"
    ]


def test_a_range_of_doses_is_told_whole(tmp_path: Path) -> None:
    bounds = {"low": {"value": 10, "unit": "mg"}, "high": {"value": 20, "unit": "mg"}}
    ranged = order(
        "m9",
        "Oxycodone",
        "2030-02-01",
        dosageInstruction=[{"doseAndRate": [{"doseRange": bounds}]}],
    )
    record = chart(tmp_path, ranged, without=("MedicationRequest",))
    assert lines_of(brief(record), "medicines") == [
        "Oxycodone, dose 10-20 mg, ordered 2030-02-01 (active)"
    ]


def test_a_problem_without_a_status_is_told_apart(tmp_path: Path) -> None:
    unknown = condition("c9", "Anemia", "2030-02-01")
    del unknown["clinicalStatus"]
    assert lines_of(brief(chart(tmp_path, unknown)), "problems")[0] == (
        "Anemia, recorded 2030-02-01 (whether it is active is not recorded)"
    )


def test_a_visit_cites_the_condition_that_it_refers_to_as_its_reason(
    tmp_path: Path,
) -> None:
    visit = _visit(0) | {"reasonReference": [{"reference": "Condition/c1"}]}
    record = chart(tmp_path, visit, without=("Encounter", "DocumentReference"))
    [section] = [each for each in brief(record).sections if each.name == "visits"]
    assert section.lines[0].text == "Encounter on 2029-01-01, for Asthma"
    assert section.lines[0].citations == ("Encounter/v0", "Condition/c1")


def test_what_was_ordered_on_the_same_day_is_not_the_order_before(
    tmp_path: Path,
) -> None:
    other = order("m9", "metformin 500 MG Oral Tablet", "2029-01-01", "stopped")
    lines = lines_of(brief(chart(tmp_path, other)), "medicines")
    assert lines[0].endswith("once a day, ordered 2028-01-01")


def test_a_part_of_a_mixture_is_no_last_order_of_its_own(tmp_path: Path) -> None:
    parts = [medication("salt", "Saline"), medication("drug", "Cefazolin")]
    mixture = medication("mix", "", ["salt", "drug"])
    ended = {
        "status": "completed",
        "dispenseRequest": {"validityPeriod": {"end": "2030-01-03"}},
    }
    orders = [
        medication_request(f"r{drug}", "p1", drug, "2030-01-02") | ended
        for drug in ("mix", "drug")
    ]
    record = chart(tmp_path, *parts, mixture, *orders, without=("MedicationRequest",))
    assert lines_of(brief(record), "medicines") == [
        "Cefazolin, ordered 2030-01-02, until 2030-01-03 (completed)"
    ]


@pytest.mark.parametrize(
    ("name", "latest", "before", "line"),
    [
        (
            "Ferritin",
            {"value": 5, "unit": "ug/L"},
            {"value": 4, "unit": "mg/L"},
            "Ferritin 5 ug/L on 2030-02-02, before: 4 mg/L on 2029-02-02",
        ),
        (
            "CRP",
            {"value": 5, "unit": "mg/L", "comparator": "<"},
            {"value": 9, "unit": "mg/L"},
            "CRP <5 mg/L on 2030-02-02, before: 9 mg/L on 2029-02-02",
        ),
        (
            "How many live here?",
            {"value": 5, "unit": "{#}"},
            {"value": 4, "unit": "{#}"},
            None,
        ),
    ],
)
def test_an_arrow_stands_between_values_that_compare(
    tmp_path: Path, name: str, latest: Quantity, before: Quantity, line: str | None
) -> None:
    code = codeable_concept("x", name)
    results = [
        observation("x1", "p1", code, "2029-02-02", valueQuantity=before),
        observation("x2", "p1", code, "2030-02-02", valueQuantity=latest),
    ]
    lines = lines_of(brief(chart(tmp_path, *results, without=("Observation",))), "labs")
    assert lines == ([line] if line else [])


def test_parts_of_a_stay_are_no_visits_of_their_own(tmp_path: Path) -> None:
    part = _visit(1) | {"partOf": {"reference": "Encounter/v0"}}
    record = chart(
        tmp_path, _visit(0), part, without=("Encounter", "DocumentReference")
    )
    assert len(lines_of(brief(record), "visits")) == 1


def test_names_that_a_template_fills_in_are_no_follow_ups(tmp_path: Path) -> None:
    text = "- referral to hospice (procedure)\nRefer to hospice."
    record = chart(
        tmp_path, note("n9", text, "2030-05-20"), without=("DocumentReference",)
    )
    [line] = lines_of(brief(record), "follow_ups")
    assert line.startswith("“Refer to hospice.”")
