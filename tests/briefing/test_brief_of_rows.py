"""Which rows of a record count for a summary: later ones that ended, twins, old ones, units."""

from pathlib import Path
from typing import Any

import pytest

from tests.briefing.briefs import brief, lines_of, message_of
from tests.briefing.invented_chart import chart, condition, order
from tests.fhir.invented import codeable_concept, observation, patient

Resource = dict[str, Any]
LOINC = "http://loinc.org"


def result(
    name: str,
    value: float,
    when: str,
    unit: str = "mg/dL",
    code: Resource | None = None,
    **more: Any,
) -> Resource:
    quantity = {"value": value, "unit": unit}
    code = code or codeable_concept("t1", "Ferritin")
    return observation(name, "p1", code, when, valueQuantity=quantity, **more)


def labs(folder: Path, *results: Resource) -> list[str]:
    return lines_of(brief(chart(folder, *results, without=("Observation",))), "labs")


def test_a_later_row_that_ended_closes_the_earlier_ones_of_its_code(
    tmp_path: Path,
) -> None:
    rows = [
        condition("s1", "Stress (finding)", "2025-01-01"),
        condition("s2", "Stress (finding)", "2029-01-01", "resolved"),
        condition("s3", "Insomnia (disorder)", "2028-01-01", "resolved"),
        condition("s4", "Insomnia (disorder)", "2029-01-01"),
    ]
    lines = lines_of(brief(chart(tmp_path, *rows, without=("Condition",))), "problems")
    assert lines == ["Insomnia, since 2029-01-01 (active)"]


def test_a_later_order_that_was_stopped_closes_the_earlier_ones(tmp_path: Path) -> None:
    stopped = order("m9", "metformin 850 MG Oral Tablet", "2030-02-01", "stopped")
    summary = brief(chart(tmp_path, stopped))
    assert message_of(summary, "medicines").startswith("No medicine order is current")


def test_what_was_recorded_twice_on_a_day_counts_once(tmp_path: Path) -> None:
    twice = condition("s1", "Asthma (disorder)", "2020-04-02T12:00:00Z")
    [_, line] = lines_of(brief(chart(tmp_path, twice)), "problems")
    assert (
        line
        == "Asthma, since 2010-03-01 (active), recorded 2 times, last on 2020-04-02"
    )


def test_results_with_a_bare_date_and_with_a_time_zone_are_compared(
    tmp_path: Path,
) -> None:
    rows = (result("r1", 40, "2029-05-01"), result("r2", 50, "2030-05-01T08:00:00Z"))
    assert labs(tmp_path, *rows) == [
        "Ferritin 50 mg/dL on 2030-05-01, rose from 40 mg/dL on 2029-05-01"
    ]


def test_a_lower_stage_comes_after_the_higher_one_and_says_so(tmp_path: Path) -> None:
    rows = [
        condition("s1", "Chronic kidney disease stage 3 (disorder)", "2027-01-01"),
        condition("s2", "Chronic kidney disease stage 2 (disorder)", "2029-01-01"),
        condition("s3", "Prediabetes (finding)", "2029-01-01"),
        condition("s4", "Diabetes mellitus type 2 (disorder)", "2028-01-01"),
    ]
    for row, code in zip(rows, "1234", strict=True):
        row["code"]["coding"][0]["code"] = code
    lines = lines_of(brief(chart(tmp_path, *rows, without=("Condition",))), "problems")
    assert [line.partition(", ")[0] for line in lines] == [
        "Diabetes mellitus type 2",
        "Chronic kidney disease stage 3",
        "Chronic kidney disease stage 2",
        "Prediabetes",
    ]
    assert all(line.endswith("(a further stage is recorded)") for line in lines[2:])


def test_old_problems_and_orders_come_last_and_the_section_says_so(
    tmp_path: Path,
) -> None:
    old = [
        condition("s1", "Psoriasis (disorder)", "1995-01-01"),
        order("m9", "ibuprofen 400 MG Oral Tablet", "2005-01-01"),
    ]
    summary = brief(chart(tmp_path, *old))
    assert lines_of(summary, "problems")[-1] == (
        "Psoriasis, since 1995-01-01 (active) (never ended in the record)"
    )
    assert lines_of(summary, "medicines")[-1].endswith(
        "(active, never ended in the record)"
    )
    assert "1 was ordered more than 5 years ago" in message_of(summary, "medicines")


def test_acute_disorders_of_former_years_are_only_counted(
    tmp_path: Path,
) -> None:
    rows = [
        condition("s1", "Acute cystitis (disorder)", "2026-01-01"),
        condition("s2", "Acute bronchitis (disorder)", "2030-05-01"),
    ]
    summary = brief(chart(tmp_path, *rows, without=("Condition",)))
    assert lines_of(summary, "problems") == [
        "Acute bronchitis, since 2030-05-01 (active)"
    ]
    assert message_of(summary, "problems") == (
        "1 acute disorder of former years without a recorded end left out."
    )


def test_single_doses_and_flushes_are_no_current_medicines(tmp_path: Path) -> None:
    once: Resource = {"dosageInstruction": [{"timing": {"code": {"text": "ONCE"}}}]}
    orders = [
        order("m8", "Sodium Chloride 0.9% Flush", "2030-05-30"),
        order("m9", "Albumin 25%", "2030-05-30", **once),
    ]
    assert len(lines_of(brief(chart(tmp_path, *orders)), "medicines")) == 1


def test_the_last_result_counts_whatever_its_category(tmp_path: Path) -> None:
    other: Resource = {"category": [{"coding": [{"code": "exam"}]}]}
    rows = [result("x1", 10, "2027-01-01"), result("x2", 30, "2029-01-01", **other)]
    assert labs(tmp_path, *rows) == [
        "Ferritin 30 mg/dL on 2029-01-01, rose from 10 mg/dL on 2027-01-01"
    ]


def test_differing_results_of_one_time_are_both_shown_without_a_change(
    tmp_path: Path,
) -> None:
    rows = [
        result("x1", 40, "2029-01-01"),
        result("x2", 23, "2030-01-01T10:00:00Z"),
        result("x3", 31.5, "2030-01-01T10:00:00Z"),
    ]
    assert labs(tmp_path, *rows) == [
        "Ferritin 23 mg/dL and 31.5 mg/dL on 2030-01-01 10:00 (differing results of the same time)"
    ]


def test_labels_of_one_test_are_one_line(tmp_path: Path) -> None:
    names = [
        f"Creatinine [Mass/volume] in {place}" for place in ("Blood", "Serum or Plasma")
    ]
    codes = [codeable_concept(str(i), name, LOINC) for i, name in enumerate(names)]
    rows = [
        result(f"x{i}", i + 1, f"2030-01-0{i + 1}", code=code)
        for i, code in enumerate(codes)
    ]
    assert labs(tmp_path, *rows) == [
        "Creatinine 2 mg/dL on 2030-01-02, rose from 1 mg/dL on 2030-01-01"
    ]


@pytest.mark.parametrize(
    ("unit", "flag"),
    [("g/L", "reference range 2-3.5 g/dL"), ("g/dL", "normal"), ("g/dl", "normal")],
)
def test_a_value_in_another_unit_than_its_range_has_no_flag(
    tmp_path: Path, unit: str, flag: str
) -> None:
    bounds = [
        {"low": {"value": 2, "unit": "g/dL"}, "high": {"value": 3.5, "unit": "g/dL"}}
    ]
    normal = [{"coding": [{"code": "N"}]}]
    row = result(
        "x1", 2.3, "2030-01-01", unit, referenceRange=bounds, interpretation=normal
    )
    assert labs(tmp_path, row) == [f"Ferritin 2.3 {unit} on 2030-01-01 ({flag})"]


@pytest.mark.parametrize(
    ("new", "change"),
    [(100.4, "rose from 100"), (98, "fell from 100"), (100, "unchanged from 100")],
)
def test_a_change_is_told_in_words_however_small(
    tmp_path: Path, new: float, change: str
) -> None:
    rows = [result("x1", 100, "2029-01-01"), result("x2", new, "2030-01-01")]
    assert change in labs(tmp_path, *rows)[0]


def test_scores_of_questionnaires_are_no_laboratory_results(tmp_path: Path) -> None:
    code = codeable_concept(
        "s", "Patient Health Questionnaire 9 item (PHQ-9) total score", LOINC
    )
    assert labs(tmp_path, result("x1", 12, "2030-01-01", "{score}", code)) == []


def test_a_result_without_a_range_comes_before_normal_ones(tmp_path: Path) -> None:
    bounds = [{"high": {"value": 9, "unit": "mg/dL"}}]
    normal = result(
        "x1",
        1,
        "2030-01-01",
        code=codeable_concept("a", "Albumin"),
        referenceRange=bounds,
    )
    lines = labs(tmp_path, normal, result("x2", 3, "2030-01-01"))
    assert [line.partition(" ")[0] for line in lines] == ["Ferritin", "Albumin"]


def _pressure(name: str, when: str, top: float, bottom: float) -> Resource:
    parts = [
        ("8480-6", "Systolic blood pressure", top),
        ("8462-4", "Diastolic blood pressure", bottom),
    ]
    components = [
        {
            "code": codeable_concept(code, display, LOINC),
            "valueQuantity": {"value": value, "unit": "mm[Hg]"},
        }
        for code, display, value in parts
    ]
    code = codeable_concept("85354-9", "Blood pressure", LOINC)
    vital = {"category": [{"coding": [{"code": "vital-signs"}]}]}
    return observation(name, "p1", code, when, component=components, **vital)


def test_a_blood_pressure_is_one_line_with_the_one_before(tmp_path: Path) -> None:
    pressures = [
        _pressure("x1", "2029-01-01", 120, 80),
        _pressure("x2", "2030-01-01", 150, 79),
    ]
    record = chart(tmp_path, *pressures, without=("Observation",))
    assert lines_of(brief(record), "vital_signs") == [
        "Blood pressure 150/79 mmHg on 2030-01-01; before: 120/80 mmHg on 2029-01-01"
    ]


def test_a_vital_sign_of_long_ago_is_left_out_and_counted(tmp_path: Path) -> None:
    old = _pressure("x1", "2010-01-01", 120, 80)
    summary = brief(chart(tmp_path, old, without=("Observation",)))
    assert lines_of(summary, "vital_signs") == []
    assert (
        message_of(summary, "vital_signs")
        == "1 vital sign last measured before 2020 left out."
    )


def test_no_allergy_is_not_said_beside_a_diagnosis_of_an_allergic_reaction(
    tmp_path: Path,
) -> None:
    reaction = condition("s1", "Other anaphylactic reaction", "2029-01-01", "resolved")
    summary = brief(chart(tmp_path, reaction, without=("AllergyIntolerance",)))
    assert lines_of(summary, "allergies") == [
        "Other anaphylactic reaction from 2029-01-01 (resolved)"
    ]
    assert message_of(summary, "allergies").startswith("No allergy is coded; diagnoses")


def test_the_evidence_of_a_condition_without_a_date_has_that_of_its_visit(
    tmp_path: Path,
) -> None:
    diagnosis = condition(
        "c9", "Pneumonia", "", encounter={"reference": "Encounter/e1"}
    )
    del diagnosis["onsetDateTime"]
    summary = brief(chart(tmp_path, diagnosis), sections=["problems"])
    assert "Pneumonia, at the visit of 2030-05-01 (active)" in lines_of(
        summary, "problems"
    )
    [evidence] = [each for each in summary.evidence if each.id == "Condition/c9"]
    assert "encounter: type: Encounter for symptom" in evidence.text
    assert "2030-05-01T09:00:00Z" in evidence.text
    assert evidence.date == "2030-05-01T09:00:00Z"


def test_the_head_says_that_the_patient_is_dead_also_for_a_later_time(
    tmp_path: Path,
) -> None:
    dead = patient(
        "p1",
        "Stone",
        ["Ann"],
        deceasedDateTime="2029-07-17",
        telecom=[{"value": "555"}],
    )
    summary = brief(chart(tmp_path, dead, without=("Patient",)), sections=["person"])
    assert lines_of(summary, "person") == [
        "Female. She died on 2029-07-17 at the age of 96 years (born 1932-12-29)",
    ]
    assert "555" not in str(summary.as_json())


def test_the_last_immunization_with_each_vaccine_is_told(tmp_path: Path) -> None:
    given = [
        {
            "resourceType": "Immunization",
            "id": f"i{when}",
            "status": "completed",
            "patient": {"reference": "Patient/p1"},
            "vaccineCode": codeable_concept("140", "Influenza, seasonal"),
            "occurrenceDateTime": when,
        }
        for when in ("2028-10-01", "2029-10-01")
    ]
    lines = lines_of(brief(chart(tmp_path, *given)), "immunizations")
    assert lines == ["Influenza, seasonal on 2029-10-01"]


def test_a_coded_code_status_and_hospice_care_are_among_the_wishes(
    tmp_path: Path,
) -> None:
    status = condition("s1", "Do not resuscitate status", "2029-01-01")
    hospice = {
        "resourceType": "Procedure",
        "id": "h1",
        "status": "completed",
        "code": codeable_concept("385763009", "Hospice care (regime/therapy)"),
        "subject": {"reference": "Patient/p1"},
        "performedDateTime": "2029-02-02",
    }
    assert lines_of(brief(chart(tmp_path, status, hospice)), "wishes") == [
        "Do not resuscitate status, since 2029-01-01 (active)",
        "Hospice care on 2029-02-02",
    ]


def test_a_procedure_has_its_own_reason_and_not_that_of_its_visit(
    tmp_path: Path,
) -> None:
    visit: Resource = {
        "resourceType": "Encounter",
        "id": "v9",
        "status": "finished",
        "class": {"code": "AMB"},
        "subject": {"reference": "Patient/p1"},
        "period": {"start": "2030-03-01T09:00:00Z", "end": "2030-03-01T10:00:00Z"},
        "reasonCode": [{"text": "Sinusitis"}],
    }
    biopsy: Resource = {
        "resourceType": "Procedure",
        "id": "d8",
        "status": "completed",
        "subject": {"reference": "Patient/p1"},
        "encounter": {"reference": "Encounter/v9"},
        "code": {"text": "Biopsy of skin"},
        "performedDateTime": "2030-03-01",
    }
    excision: Resource = {
        **biopsy,
        "id": "d9",
        "code": {"text": "Surgical excision of mole"},
        "reasonCode": [{"text": "Melanoma"}],
    }
    path = chart(tmp_path, visit, biopsy, excision, without=("Procedure",))
    assert lines_of(brief(path), "procedures") == [
        "Biopsy of skin on 2030-03-01",
        "Surgical excision of mole on 2030-03-01, for Melanoma",
    ]


def _loinc(code: str, display: str) -> Resource:
    return codeable_concept(code, display, LOINC)


def test_what_is_normal_or_implied_waits_until_its_section_is_asked_for(
    tmp_path: Path,
) -> None:
    tests = [
        ("2160-0", "Creatinine", 1, "mg/dL"),
        ("2345-7", "Glucose", 90, "mg/dL"),
        ("3094-0", "Urea nitrogen", 12, "mg/dL"),
        ("718-7", "Hemoglobin", 13, "g/dL"),
        ("6690-2", "Leukocytes", 6, "10*3/uL"),
        ("4548-4", "Hemoglobin A1c", 6, "%"),
        ("789-8", "Erythrocytes", 4.2, "10*6/uL"),
        ("4544-3", "Hematocrit", 40, "%"),
        ("787-2", "MCV", 91, "fL"),
        ("2951-2", "Sodium", 139, "mmol/L"),
        ("2823-3", "Potassium", 5.9, "mmol/L"),
    ]
    results = []
    for number, (code, display, value, unit) in enumerate(tests):
        name = _loinc(code, display)
        results.append(result(f"x{number}", value, "2030-05-01", unit, name))
    record = chart(tmp_path, *results, without=("Observation",))
    names = {line.partition(" ")[0] for line in lines_of(brief(record), "labs")}
    assert names == {
        "Creatinine",
        "Glucose",
        "Hemoglobin",
        "Leukocytes",
        "Potassium",
    }
    assert message_of(brief(record), "labs") == "5 more are recorded."
    alone = lines_of(brief(record, sections=["labs"]), "labs")
    assert len(alone) == len(tests)


def test_an_electrolyte_out_of_its_usual_range_is_shown(tmp_path: Path) -> None:
    results = []
    for number in range(6):
        name = codeable_concept(f"t{number}", f"Test {number}")
        results.append(result(f"x{number}", number, "2030-05-01", code=name))
    sodium = _loinc("2951-2", "Sodium")
    for value, when in ((140, "2029-01-01"), (121, "2030-05-01")):
        results.append(result(f"s{value}", value, when, "mmol/L", sodium))
    assert "Sodium 121 mmol/L" in " ".join(labs(tmp_path, *results))


def _visit_for(name: str, reason: str, when: str) -> Resource:
    return {
        "resourceType": "Encounter",
        "id": name,
        "status": "finished",
        "class": {"code": "AMB"},
        "subject": {"reference": "Patient/p1"},
        "period": {"start": when, "end": when},
        "reasonCode": [{"text": reason}],
    }


def test_visits_for_illness_that_passed_years_ago_are_only_counted(
    tmp_path: Path,
) -> None:
    visits = [
        _visit_for("v1", "Viral sinusitis (disorder)", "2028-01-01"),
        _visit_for("v2", "Sprain of wrist (disorder)", "2028-02-01"),
        _visit_for("v3", "Dental caries", "2028-03-01"),
        _visit_for("v4", "Chronic sinusitis (disorder)", "2028-04-01"),
        _visit_for("v5", "Kidney calculus", "2028-05-01"),
        _visit_for("v6", "Acute viral pharyngitis (disorder)", "2030-05-01"),
        _visit_for("v7", "Heart failure", "2010-05-01"),
    ]
    record = chart(tmp_path, *visits, without=("Encounter", "DocumentReference"))
    lines = lines_of(brief(record), "visits")
    assert [line.partition(", for ")[2] for line in lines] == [
        "Acute viral pharyngitis",
        "Kidney calculus",
        "Chronic sinusitis",
    ]
    assert message_of(brief(record), "visits") == "4 more are recorded."


def test_where_all_visits_are_for_minor_illness_the_last_one_is_shown(
    tmp_path: Path,
) -> None:
    visits = [
        _visit_for("v1", "Common cold", "2020-01-01"),
        _visit_for("v2", "Otitis media", "2021-02-01"),
    ]
    record = chart(tmp_path, *visits, without=("Encounter", "DocumentReference"))
    [line] = lines_of(brief(record), "visits")
    assert "Otitis media" in line


def test_immunizations_of_the_dead_wait_until_they_are_asked_for(
    tmp_path: Path,
) -> None:
    vaccine = {
        "resourceType": "Immunization",
        "id": "i1",
        "status": "completed",
        "patient": {"reference": "Patient/p1"},
        "vaccineCode": codeable_concept("140", "Influenza, seasonal"),
        "occurrenceDateTime": "2028-10-01",
    }
    dead = patient("p1", "Stone", ["Ann"], deceasedDateTime="2029-07-17")
    record = chart(tmp_path, dead, vaccine, without=("Patient",))
    assert lines_of(brief(record), "immunizations") == []
    assert message_of(brief(record), "immunizations") == (
        "1 entry is recorded: --sections immunizations."
    )
    before_death = brief(record, now="2029-01-01")
    assert len(lines_of(before_death, "immunizations")) == 1
    alone = brief(record, sections=["immunizations"])
    assert len(lines_of(alone, "immunizations")) == 1


def test_an_order_of_another_decade_is_not_joined_with_a_new_one(
    tmp_path: Path,
) -> None:
    orders = [
        order("m1", "cetirizine 10 MG Oral Tablet", "1999-02-01", "completed"),
        order("m2", "cetirizine 10 MG Oral Tablet", "2030-02-01"),
    ]
    record = chart(tmp_path, *orders, without=("MedicationRequest",))
    assert lines_of(brief(record), "medicines") == [
        "Cetirizine 10 mg Oral Tablet, ordered 2030-02-01 (active)"
    ]


def test_where_all_orders_are_old_none_is_at_the_end(tmp_path: Path) -> None:
    old = order("m1", "cetirizine 10 MG Oral Tablet", "2010-02-01")
    record = chart(tmp_path, old, without=("MedicationRequest",))
    assert message_of(brief(record), "medicines").endswith(
        "1 was ordered more than 5 years ago."
    )


def test_carrier_fluids_come_after_medicines_and_only_by_name(tmp_path: Path) -> None:
    orders = [
        order("m1", "Sodium Chloride 0.9% 1000 ML Injection", "2030-05-02"),
        order("m2", "Sodium Chloride 1000 MG Oral Tablet", "2030-05-01"),
    ]
    record = chart(tmp_path, *orders, without=("MedicationRequest",))
    [line] = lines_of(brief(record), "medicines")
    assert line.startswith("Sodium Chloride 1000 mg")


def test_circumstances_are_pointed_to_and_not_denied(tmp_path: Path) -> None:
    life = [
        condition("x1", "Stress (finding)", "2029-01-01"),
        condition("x2", "Refugee (person)", "2028-01-01"),
        condition("x3", "Acute stress disorder (disorder)", "2030-01-01"),
    ]
    summary = brief(chart(tmp_path, *life, without=("Condition",)))
    [problem] = lines_of(summary, "problems")
    assert problem.startswith("Acute stress disorder")
    assert message_of(summary, "social_needs") == (
        "None recorded; other circumstances are: --sections circumstances."
    )
    assert "housing" not in summary.nothing_recorded


def test_a_name_that_says_less_than_another_of_its_time_is_only_counted(
    tmp_path: Path,
) -> None:
    rows = [
        condition("s1", "Sprain (morphologic abnormality)", "2030-05-01"),
        condition("s2", "Sprain of ankle (disorder)", "2030-05-01"),
        condition("s3", "Hypertension (disorder)", "2030-05-01"),
        condition("s4", "Pulmonary hypertension (disorder)", "2030-05-01"),
        condition("s5", "Anemia (disorder)", "2029-05-01"),
        condition("s6", "Anemia of pregnancy (disorder)", "2030-05-01"),
    ]
    for number, row in enumerate(rows):
        row["code"]["coding"][0]["code"] = str(number)
    lines = lines_of(brief(chart(tmp_path, *rows, without=("Condition",))), "problems")
    names = [line.partition(",")[0] for line in lines]
    assert sorted(names) == [
        "Anemia",
        "Anemia of pregnancy",
        "Hypertension",
        "Pulmonary hypertension",
        "Sprain of ankle",
    ]


def test_old_procedures_are_shown_if_they_last(tmp_path: Path) -> None:
    done = [
        ("Physical therapy procedure", "2010-01-01"),
        ("Appendectomy", "2010-02-01"),
        ("Replacement of hip", "2005-02-01"),
        ("Percutaneous removal of renal calculus", "2029-02-01"),
    ]
    procedures = []
    for number, (display, when) in enumerate(done):
        procedures.append(
            {
                "resourceType": "Procedure",
                "id": f"d{number}",
                "status": "completed",
                "code": codeable_concept(f"{number}", display),
                "subject": {"reference": "Patient/p1"},
                "performedDateTime": when,
            }
        )
    record = chart(tmp_path, *procedures, without=("Procedure",))
    names = [
        line.partition(" on ")[0] for line in lines_of(brief(record), "procedures")
    ]
    assert names == [
        "Percutaneous removal of renal calculus",
        "Appendectomy",
        "Replacement of hip",
    ]
    assert message_of(brief(record), "procedures") == "1 more is recorded."


def test_places_and_traffic_of_accidents_are_no_problems(tmp_path: Path) -> None:
    system = "http://hl7.org/fhir/sid/icd-10-cm"
    names = {
        "Y92488": "Paved roadway as the place of occurrence",
        "V4352XA": "Car driver injured in collision",
        "W1830XA": "Fall on same level",
        "X838XXA": "Intentional self-harm",
    }
    rows = []
    for code, display in names.items():
        row = condition(code, display, "2030-05-01")
        row["code"]["coding"][0] |= {"system": system, "code": code}
        rows.append(row)
    lines = lines_of(brief(chart(tmp_path, *rows, without=("Condition",))), "problems")
    assert [line.partition(",")[0] for line in lines] == [
        "Fall on same level",
        "Intentional self-harm",
    ]


def test_ambulatory_visits_for_one_reason_take_one_line(tmp_path: Path) -> None:
    visits = []
    for number in range(3):
        visits.append(_visit_for(f"v{number}", "Gout", f"2029-0{number + 1}-01"))
        stay = _visit_for(f"s{number}", "Heart failure", f"2030-0{number + 1}-01")
        visits.append(stay | {"class": {"code": "IMP"}})
    record = chart(tmp_path, *visits, without=("Encounter", "DocumentReference"))
    lines = lines_of(brief(record), "visits")
    assert ["Heart failure" in line for line in lines] == [True, True, True, False]
    assert "2029-03-01" in lines[-1]


def test_one_value_in_two_spellings_of_a_unit_does_not_differ(tmp_path: Path) -> None:
    lines = labs(
        tmp_path,
        result("x1", 9.9, "2030-01-01T08:00:00Z", "g/dl"),
        result("x2", 9.9, "2030-01-01T08:00:00Z", "g/dL"),
    )
    assert "differing" not in lines[0]


def test_what_is_among_the_wishes_is_no_problem_as_well(tmp_path: Path) -> None:
    rows = [
        condition("s1", "Do not resuscitate status (finding)", "2030-01-01"),
        condition("s2", "Gout (disorder)", "2030-01-01"),
    ]
    summary = brief(chart(tmp_path, *rows, without=("Condition",)))
    assert [line[:4] for line in lines_of(summary, "problems")] == ["Gout"]
    assert "Do not resuscitate status" in lines_of(summary, "wishes")[0]


def test_cells_of_a_fluid_are_results_of_their_own(tmp_path: Path) -> None:
    system = "http://mimic.mit.edu/fhir/mimic/CodeSystem/mimic-d-labitems"
    cells = []
    for code, display, value in (
        ("51444", "Eosinophils", 1),
        ("51446", "Lymphocytes", 22),
    ):
        name = codeable_concept(code, display, system)
        cells.append(result(f"x{code}", value, "2030-01-01T08:00:00Z", "%", name))
    lines = labs(tmp_path, *cells)
    assert [line.partition(" ")[0] for line in lines] == ["Eosinophils", "Lymphocytes"]


def test_of_ended_orders_laxatives_and_the_like_wait(tmp_path: Path) -> None:
    orders = [
        order("m1", "Docusate Sodium 100 MG", "2030-05-02", "completed"),
        order("m2", "Warfarin 5 MG", "2030-05-01", "completed"),
    ]
    record = chart(tmp_path, *orders, without=("MedicationRequest",))
    [line] = lines_of(brief(record), "medicines")
    assert "Warfarin" in line
