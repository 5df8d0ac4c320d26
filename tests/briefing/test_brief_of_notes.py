"""What a summary quotes of notes: whole lines, at the right place, beside what they contradict."""

from pathlib import Path
from typing import Any

import pytest

from archqa.briefing.brief import Brief
from archqa.briefing.markdown import brief_markdown
from archqa.briefing.verification import text_problem
from tests.briefing.briefs import brief, lines_of, message_of
from tests.briefing.invented_chart import chart, note, order
from tests.fhir.invented import codeable_concept, observation

PLACE = "(Progress note, R. Doe MD, 2030-05-20)"


def brief_with(
    folder: Path, text: str, *more: dict[str, Any], when: str = "2030-05-20"
) -> Brief:
    """The summary with one note instead of the others."""
    return brief(
        chart(folder, note("n9", text, when), *more, without=("DocumentReference",))
    )


def test_an_allergy_that_a_note_states_is_no_change_of_a_medicine(
    tmp_path: Path,
) -> None:
    line = "Allergy: aspirin. Add lamotrigine - rash 02/2024."
    summary = brief_with(tmp_path, f"MEDS\n- Metoprolol stopped.\n{line}")
    assert lines_of(summary, "medicine_changes") == [f"“- Metoprolol stopped.” {PLACE}"]
    assert f"“{line}” {PLACE}" in lines_of(summary, "allergies")


def test_that_an_allergy_was_disproved_stands_among_the_allergies(
    tmp_path: Path,
) -> None:
    text = "The ceftriaxone allergy is disproved.\nCefazolin allergy: removed.\nCetirizine started for allergies."
    summary = brief_with(tmp_path, text)
    first, second, third = (f"“{line}” {PLACE}" for line in text.split("\n"))
    assert {first, second} < set(lines_of(summary, "allergies"))
    assert lines_of(summary, "medicine_changes") == [third]


def test_the_label_of_an_allergy_holds_for_its_own_line(tmp_path: Path) -> None:
    text = "Weight 80. Allergies: penicillin.\nStart lisinopril 10 mg.\nStop aspirin."
    assert len(lines_of(brief_with(tmp_path, text), "medicine_changes")) == 2


def test_the_items_of_a_list_are_not_joined(tmp_path: Path) -> None:
    first = "candesartan 8 - begun 02/2023 for migraine, 7 -> 3 d/mo; held 3/10"
    second = "simvastatin 10 - begun 3/30, quit on her own in the first week of May"
    summary = brief_with(tmp_path, f"{first}\n{second}")
    assert lines_of(summary, "medicine_changes") == [
        f"“{first}” {PLACE}",
        f"“{second}” {PLACE}",
    ]


def test_a_line_that_was_not_wrapped_is_one_item(tmp_path: Path) -> None:
    first = "saw his cardiologist, who stopped metoprolol on 3/10"
    second = "walks with the dog each day, aspirin was stopped by his wife, who read a book on it"
    lines = lines_of(brief_with(tmp_path, f"{first}\n{second}"), "medicine_changes")
    assert lines == [f"“{first}” {PLACE}", f"“{second}” {PLACE}"]


def test_a_wrapped_line_is_quoted_whole(tmp_path: Path) -> None:
    text = (
        "He was told that from tomorrow on he is to stop the\n"
        "metoprolol that his former doctor had given him for\nhis heart."
    )
    summary = brief_with(tmp_path, text)
    assert lines_of(summary, "medicine_changes") == [
        f"“{' '.join(text.split())}” {PLACE}"
    ]


@pytest.mark.parametrize(
    ("text", "is_beside"),
    [
        ("NOT taking: metformin, aspirin.", True),
        ("Metformin stopped because of diarrhea.", True),
        ("Metformin 500 mg twice a day.", True),
        ("Metformin 850 mg twice a day.", False),
        ("Continue metformin.", False),
        ("Allergy: metformin, stop it.", False),
    ],
)
def test_a_newer_note_stands_beside_the_medicine_that_it_contradicts(
    tmp_path: Path, text: str, is_beside: bool
) -> None:
    [line] = lines_of(brief_with(tmp_path, text), "medicines")
    assert line.endswith(f"; a newer note says: “{text}” {PLACE}") is is_beside
    assert ("note" in line) is is_beside


@pytest.mark.parametrize(
    ("section", "others", "own"),
    [
        ("medicine_changes", "His wife was started on warfarin.", "Discussed with his daughter: start apixaban."),
        ("medicine_changes", "FH: sister stopped aspirin.", "His wife says he stopped aspirin."),
        ("allergies", "Her mother is allergic to latex.", "Allergic to latex, her mother reports."),
        ("follow_ups", "Her father has a repeat colonoscopy next week.", "Here with her father: repeat colonoscopy."),
        ("wishes", "His brother is DNR.", "Proxy is his brother, full code."),
    ],
)  # fmt: skip
def test_what_a_note_says_of_other_people_is_not_shown_as_the_patients(
    section: str, others: str, own: str, tmp_path: Path
) -> None:
    lines = lines_of(brief_with(tmp_path, f"{others}\n{own}"), section)
    assert f"“{own}” {PLACE}" in lines
    assert not any(others in line for line in lines)


def test_a_relatives_medicine_or_result_contradicts_nothing(tmp_path: Path) -> None:
    text = "Her husband stopped metformin.\nBrother's creatinine was 4.1."
    code = codeable_concept(
        "2160-0", "Creatinine [Mass/volume] in Blood", "http://loinc.org"
    )
    result = observation(
        "x1", "p1", code, "2030-05-10", valueQuantity={"value": 2.9, "unit": "mg/dL"}
    )
    summary = brief_with(tmp_path, text, result)
    for section in ("medicines", "labs"):
        assert not any("note says" in line for line in lines_of(summary, section))


def test_a_note_from_before_the_order_does_not(tmp_path: Path) -> None:
    [line] = lines_of(
        brief_with(tmp_path, "Metformin stopped.", when="2029-12-01"), "medicines"
    )
    assert "note" not in line


def test_medicines_that_only_the_newest_list_of_a_note_names_are_pointed_to(
    tmp_path: Path,
) -> None:
    text = "MEDS:\n- metformin 850\n- prazosin 2 mg qHS\n- NOT taking: fluoxetine\nEXAM: aspirin"
    older = note("n8", "MEDS:\n- warfarin 5 mg", "2030-04-01")
    summary = brief_with(tmp_path, text, older)
    assert lines_of(summary, "medicines_in_notes") == [f"“- prazosin 2 mg qHS” {PLACE}"]


def test_the_reaction_that_a_note_tells_stands_beside_the_allergy(
    tmp_path: Path,
) -> None:
    allergy = {
        "resourceType": "AllergyIntolerance",
        "id": "a2",
        "code": {"text": "Aspirin"},
        "patient": {"reference": "Patient/p1"},
        "recordedDate": "2020-01-01",
    }
    text = "Allergy: aspirin and others.\nALLERGY: aspirin (hives, lip swelling)."
    lines = lines_of(brief_with(tmp_path, text, allergy), "allergies")
    assert lines[0] == (
        "Allergy to Aspirin, recorded 2020-01-01; a note says: "
        f"“ALLERGY: aspirin (hives, lip swelling).” {PLACE}"
    )
    assert lines[2:] == [f"“Allergy: aspirin and others.” {PLACE}"]


def test_a_note_that_doubts_a_result_stands_beside_it(tmp_path: Path) -> None:
    code = codeable_concept(
        "2160-0", "Creatinine [Mass/volume] in Blood", "http://loinc.org"
    )
    result = observation(
        "x1", "p1", code, "2030-05-10", valueQuantity={"value": 2.9, "unit": "mg/dL"}
    )
    text = "Creatinine of last week was spurious, from a creatine powder."
    [_, line] = lines_of(brief_with(tmp_path, text, result), "labs")
    assert line == f"Creatinine 2.9 mg/dL on 2030-05-10; a note says: “{text}” {PLACE}"


@pytest.mark.parametrize(
    ("when", "is_beside"), [("2030-05-20", True), ("2030-05-10", False)]
)
def test_a_later_value_of_a_note_stands_beside_a_result(
    tmp_path: Path, when: str, is_beside: bool
) -> None:
    code = codeable_concept(
        "2160-0", "Creatinine [Mass/volume] in Blood", "http://loinc.org"
    )
    result = observation(
        "x1", "p1", code, "2030-05-10", valueQuantity={"value": 2.9, "unit": "mg/dL"}
    )
    [_, line] = lines_of(
        brief_with(tmp_path, "Creatinine 0.8 now.", result, when=when), "labs"
    )
    assert ("a note says: “Creatinine 0.8 now.”" in line) is is_beside


@pytest.mark.parametrize(
    "text",
    [
        "Accession S25-04418 | Collected 02/20/2030 | Reported 06/26/2030",
        "Specimen 4418 | Received 02/20/2030 | Results to follow 06/26/2030",
        "Addendum from endoscopy, to follow 06/03/2030",
        "Repeat 5/16: Cr 0.79, BUN 11.",
        "First visit 12/17/2029, saliva kit.",
        "Follow-up visit:",
        "A lesion of this size places it in a higher-risk group for surveillance.",
    ],
)
def test_entries_headings_and_results_are_no_follow_ups(
    tmp_path: Path, text: str
) -> None:
    assert lines_of(brief_with(tmp_path, text), "follow_ups") == []


def test_a_follow_up_is_quoted_with_the_line_it_is_on(tmp_path: Path) -> None:
    text = "3. Cardiomyopathy, resolved. Repeat the echo in June. It was never booked."
    assert lines_of(brief_with(tmp_path, text), "follow_ups") == [f"“{text}” {PLACE}"]


def test_visits_that_only_notes_tell_are_among_the_last_visits(tmp_path: Path) -> None:
    summary = brief_with(tmp_path, "Well.", note("n8", "Well.", "2030-05-01"))
    assert lines_of(summary, "visits") == [
        "Progress note, R. Doe MD on 2030-05-20 (known from a note)",
        "Encounter for symptom on 2030-05-01, for Cough",
    ]


def test_wishes_code_status_and_proxy_are_quoted_from_all_notes(tmp_path: Path) -> None:
    text = "WISHES: Full code. Proxy is her sister.\nLungs clear."
    summary = brief_with(
        tmp_path, text, note("n1", "Signed a MOLST: DNR.", "2020-01-01")
    )
    assert lines_of(summary, "wishes") == [
        f"“WISHES: Full code. Proxy is her sister.” {PLACE}",
        "“Signed a MOLST: DNR.” (Progress note, R. Doe MD, 2020-01-01)",
    ]


def test_what_stands_in_quotation_marks_is_in_the_note_and_may_have_arrows(
    tmp_path: Path,
) -> None:
    text = 'Metoprolol 50 -> 25 mg ↓ 3 times a week, "too “slow”" he said, stop it.'
    [line] = lines_of(brief_with(tmp_path, text), "medicine_changes")
    assert line.startswith("“Metoprolol 50 -> 25 mg ↓ 3 times a week")
    assert text_problem("“Stop it.”", ("D/n9#1",), "Do not stop it.")
    assert not text_problem("“stop it”", ("D/n9#1",), "Do not stop it.")


def test_the_lines_of_a_sentence_stay_apart_in_the_evidence(tmp_path: Path) -> None:
    text = "candesartan 8 - begun 02/2023 for migraine, 7 -> 3 d/mo; held 3/10\nsimvastatin 10"
    assert r"held 3/10 / simvastatin 10" in brief_markdown(
        brief_with(tmp_path, text), evidence=True
    )


def test_an_old_order_is_contradicted_once_however_often_it_was_repeated(
    tmp_path: Path,
) -> None:
    repeated = order("m8", "metformin 850 MG Oral Tablet", "2030-02-01")
    summary = brief_with(tmp_path, "Metformin stopped.", repeated)
    assert len(lines_of(summary, "medicines")) == 1
    assert message_of(summary, "medicine_changes").startswith("As written")
