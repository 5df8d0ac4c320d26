"""The heading above every sentence of eight invented ward-style notes, each read by hand.

A line of an expected text is a heading, a bar and the sentence below it.
"""

import pytest

from archqa.notes.non_evidence import headings_of_sentences
from archqa.notes.sections import labelled_parts, section_kind
from archqa.notes.sentences import case_from_text

UK_WARD_ROUND = """\
WR Dr Okafor 14/3, bed 12

72M day 2 post right hemicolectomy.
PMHx: T2DM, asthma (never intubated). Previous DVT 2011.
FH: bowel cancer. DH: amlodipine 5 mg. SH: lives alone.
Allergies: penicillin (rash). Anaesthetic history: PONV in 2019. Grade 1 airway.
Passed flatus overnight.
O/E: comfortable at rest. Wound dry. BP 128/76, HR 84.
Ix: CRP 112, WCC 11.2.
Imp: recovering well.
Plan:
1. Stop IV fluids
2. Continue enoxaparin. Restart metformin tomorrow."""
UK_WARD_ROUND_HEADINGS = """\
| WR Dr Okafor 14/3, bed 12
| 72M day 2 post right hemicolectomy.
| PMHx: T2DM, asthma (never intubated).
PMHx: | Previous DVT 2011.
| FH: bowel cancer.
| DH: amlodipine 5 mg.
| SH: lives alone.
| Allergies: penicillin (rash).
| Anaesthetic history: PONV in 2019.
Anaesthetic history: | Grade 1 airway.
| Passed flatus overnight.
| O/E: comfortable at rest.
O/E: | Wound dry.
| BP 128/76, HR 84.
| Ix: CRP 112, WCC 11.2.
| Imp: recovering well.
| Plan:
Plan: | 1. Stop IV fluids
Plan: | 2. Continue enoxaparin.
Plan: | Restart metformin tomorrow."""

US_DISCHARGE_SUMMARY = """\
DISCHARGE SUMMARY

HISTORY OF PRESENT ILLNESS:
Ms. Lane is a 58-year-old woman with chest pain.
It began while she was gardening.

PAST MEDICAL HISTORY:
1. Hypertension
2. Migraine

Past surgical history: cholecystectomy 2004. No complications.

FAMILY HISTORY: Father had an MI at 58. Mother is well.

ALLERGIES: none known.

HOSPITAL COURSE:
Neuro: alert throughout. No headache.
Labs: troponin negative twice.
She walked on day 2.

DISCHARGE MEDICATIONS:
- Aspirin 81 mg daily
- Labs: potassium in one week
STOPPED THIS ADMISSION
- Naproxen 500 mg

Follow-up: cardiology in two weeks."""
US_DISCHARGE_SUMMARY_HEADINGS = """\
| DISCHARGE SUMMARY
| HISTORY OF PRESENT ILLNESS:
HISTORY OF PRESENT ILLNESS: | Ms. Lane is a 58-year-old woman with chest pain.
HISTORY OF PRESENT ILLNESS: | It began while she was gardening.
| PAST MEDICAL HISTORY:
PAST MEDICAL HISTORY: | 1. Hypertension
PAST MEDICAL HISTORY: | 2. Migraine
| Past surgical history: cholecystectomy 2004.
Past surgical history: | No complications.
| FAMILY HISTORY: Father had an MI at 58.
FAMILY HISTORY: | Mother is well.
| ALLERGIES: none known.
| HOSPITAL COURSE:
HOSPITAL COURSE: | Neuro: alert throughout.
HOSPITAL COURSE: | No headache.
HOSPITAL COURSE: | Labs: troponin negative twice.
HOSPITAL COURSE: | She walked on day 2.
| DISCHARGE MEDICATIONS:
DISCHARGE MEDICATIONS: | - Aspirin 81 mg daily
DISCHARGE MEDICATIONS: | - Labs: potassium in one week
| STOPPED THIS ADMISSION
STOPPED THIS ADMISSION | - Naproxen 500 mg
| Follow-up: cardiology in two weeks."""

EMERGENCY_NOTE = """\
ED note 03:10

PC: fall from ladder. HPC: fell 2 m onto left side. No LOC.
PMH: nil; DH: nil regular, NKDA
SHx - roofer. Smokes 10/day.
O/E - GCS 15. Tender left ribs.
NKDA. Tetanus up to date.
CXR: two rib fractures. No pneumothorax.
Rx: paracetamol, codeine. Discharged with head injury advice."""
EMERGENCY_NOTE_HEADINGS = """\
| ED note 03:10
| PC: fall from ladder.
| HPC: fell 2 m onto left side.
HPC: | No LOC.
| PMH: nil; DH: nil regular, NKDA
| SHx - roofer.
SHx: | Smokes 10/day.
| O/E - GCS 15.
O/E: | Tender left ribs.
| NKDA.
| Tetanus up to date.
| CXR: two rib fractures.
| No pneumothorax.
| Rx: paracetamol, codeine.
Rx: | Discharged with head injury advice."""

CLINIC_LETTER = """\
Dear Dr Marsh,

Diagnosis: focal epilepsy since 2016

I reviewed this teacher. No seizures since May. Her brother has epilepsy. We discussed driving: she may drive again.

Her current treatment is as follows:
- lamotrigine 150 mg twice daily
- folic acid 5 mg
She tolerates both well.

Examination was normal.

Yours sincerely,
Dr A. Bello"""
CLINIC_LETTER_HEADINGS = """\
| Dear Dr Marsh,
| Diagnosis: focal epilepsy since 2016
| I reviewed this teacher.
| No seizures since May.
| Her brother has epilepsy.
| We discussed driving: she may drive again.
| Her current treatment is as follows:
Her current treatment is as follows: | - lamotrigine 150 mg twice daily
Her current treatment is as follows: | - folic acid 5 mg
| She tolerates both well.
| Examination was normal.
| Yours sincerely,
| Dr A. Bello"""

OPERATION_NOTE = """\
OPERATION NOTE

PROCEDURE: Left inguinal hernia repair with mesh.
SURGEON: Mr Reid. ASSISTANT: Dr Cole.
INDICATION: painful left groin lump.
Findings:
Indirect sac, contents viable.
No femoral hernia.

POSTOP PLAN:
Eat and drink. Home today.
Analgesia: paracetamol, ibuprofen. Laxatives if codeine is used.
No heavy lifting for six weeks."""
OPERATION_NOTE_HEADINGS = """\
| OPERATION NOTE
| PROCEDURE: Left inguinal hernia repair with mesh.
| SURGEON: Mr Reid.
| ASSISTANT: Dr Cole.
| INDICATION: painful left groin lump.
| Findings:
Findings: | Indirect sac, contents viable.
Findings: | No femoral hernia.
| POSTOP PLAN:
POSTOP PLAN: | Eat and drink.
POSTOP PLAN: | Home today.
POSTOP PLAN: | Analgesia: paracetamol, ibuprofen.
POSTOP PLAN: | Laxatives if codeine is used.
POSTOP PLAN: | No heavy lifting for six weeks."""

NURSING_NOTE = """\
Nursing note, night shift

PMH:
- COPD
- heart failure. Ejection fraction 35%.
- FH: mother had COPD

Obs: RR 20, sats 91% on 2 L. Temp 37.0.
Slept from 23:00.
Skin: sacrum intact. Turned every four hours.
Family: daughter rang, updated.
Plan: continue oxygen. Weigh daily."""
NURSING_NOTE_HEADINGS = """\
| Nursing note, night shift
| PMH:
PMH: | - COPD
PMH: | - heart failure.
PMH: | Ejection fraction 35%.
PMH: | - FH: mother had COPD
| Obs: RR 20, sats 91% on 2 L.
| Temp 37.0.
| Slept from 23:00.
| Skin: sacrum intact.
| Turned every four hours.
| Family: daughter rang, updated.
| Plan: continue oxygen.
Plan: | Weigh daily."""

MARKDOWN_NOTE = """\
# Clinic review

## Family history

Two maternal aunts had ovarian cancer.

Her sister declined testing.

## Past Medical Hx
Endometriosis. Appendicectomy as a child.

**Meds:** norethisterone. No herbal remedies.
**Allergies**
Latex.

### BRCA counselling
She wishes to be tested.
#Pain: ibuprofen helps. No red flags."""
MARKDOWN_NOTE_HEADINGS = """\
| # Clinic review
| ## Family history
## Family history | Two maternal aunts had ovarian cancer.
## Family history | Her sister declined testing.
| ## Past Medical Hx
## Past Medical Hx | Endometriosis.
## Past Medical Hx | Appendicectomy as a child.
| **Meds:** norethisterone.
Meds: | No herbal remedies.
| **Allergies**
**Allergies** | Latex.
| ### BRCA counselling
### BRCA counselling | She wishes to be tested.
| #Pain: ibuprofen helps.
| No red flags."""

ADMISSION_IN_ONE_LINE = """\
82F, nursing home. PMH: AF, stroke 2018 DH: apixaban, bisoprolol. FHx: nil. A&P: UTI, start trimethoprim. Review Monday.
Background: vascular dementia, mobile with frame. Needs help with washing.
Meds on admission: 1. apixaban 5 mg
2. bisoprolol 2.5 mg
Daughter is next of kin."""
ADMISSION_IN_ONE_LINE_HEADINGS = """\
| 82F, nursing home.
| PMH: AF, stroke 2018 DH: apixaban, bisoprolol.
| FHx: nil.
| A&P: UTI, start trimethoprim.
A&P: | Review Monday.
| Background: vascular dementia, mobile with frame.
Background: | Needs help with washing.
| Meds on admission: 1.
Meds on admission: | apixaban 5 mg
Meds on admission: | 2. bisoprolol 2.5 mg
| Daughter is next of kin."""


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (UK_WARD_ROUND, UK_WARD_ROUND_HEADINGS),
        (US_DISCHARGE_SUMMARY, US_DISCHARGE_SUMMARY_HEADINGS),
        (EMERGENCY_NOTE, EMERGENCY_NOTE_HEADINGS),
        (CLINIC_LETTER, CLINIC_LETTER_HEADINGS),
        (OPERATION_NOTE, OPERATION_NOTE_HEADINGS),
        (NURSING_NOTE, NURSING_NOTE_HEADINGS),
        (MARKDOWN_NOTE, MARKDOWN_NOTE_HEADINGS),
        (ADMISSION_IN_ONE_LINE, ADMISSION_IN_ONE_LINE_HEADINGS),
    ],
)
def test_every_sentence_of_a_note_stands_under_its_own_heading(
    note: str, expected: str
) -> None:
    case = case_from_text("Why?", note)
    headings = headings_of_sentences(case)
    lines = []
    for index, sentence in enumerate(case.sentences):
        lines.append(f"{headings.get(index, '')} | {sentence.text}".strip())
    assert lines == expected.split("\n")


def test_a_label_holds_for_a_wrapped_line_but_not_for_the_line_after() -> None:
    note = (
        "FAMILY HISTORY: Her father had a heart attack at the age of 58, and a\n"
        "brother had a stroke. Her mother is well.\n"
        "Lives alone.\nShe drives."
    )
    case = case_from_text("Why?", note)
    assert headings_of_sentences(case) == {1: "FAMILY HISTORY:"}


@pytest.mark.parametrize(
    ("sentence", "labels"),
    [
        ("PMH: AF, stroke 2018 DH: apixaban", ["PMH:", "DH:"]),
        ("PMH: nil; DH: nil regular, SHx: roofer", ["PMH:", "DH:", "SHx:"]),
        ("Lives alone FH: father MI", ["", "FH:"]),
        ("- Chest: clear; Abdomen: soft", ["Chest:", "Abdomen:"]),
        ("BP 120/80 at 14:30, well", [""]),
        ("We discussed driving: she may drive again.", [""]),
    ],
)
def test_a_sentence_has_parts_with_labels_of_their_own(
    sentence: str, labels: list[str]
) -> None:
    parts = labelled_parts(sentence)
    assert [part.label for part in parts] == labels
    assert "".join(sentence[part.start : part.end] for part in parts) == sentence


@pytest.mark.parametrize(
    ("kind", "titles"),
    [
        (
            "history",
            "PMH PMHx PSH PSHx Hx Background|Past Medical Hx|Anaesthetic history",
        ),
        ("family", "FH FHx|Family history|Family Hx|FAMILY MEDICAL HISTORY"),
        ("social", "SH SHx|Social history|Social Hx|Social"),
        ("medications", "DH DHx Rx Meds|Drug history|Discharge Medications"),
        ("allergies", "Allergies NKDA"),
        ("presentation", "HPC PC HPI"),
        ("examination", "O/E Obs PE|Physical Exam"),
        ("results", "Ix Bloods Investigations Labs"),
        ("diagnoses", "Imp Impression"),
        ("plan", "A&P A/P Plan"),
    ],
)
def test_labels_and_their_abbreviations_name_a_kind_of_section(
    kind: str, titles: str
) -> None:
    first, *others = titles.split("|")
    for title in (*first.split(), *others):
        assert section_kind(f"{title}:") == kind
