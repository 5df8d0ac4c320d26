"""Questions that a note answers, and the same questions of notes that say it of something else."""

import pytest

import archqa
from archqa.asking.answer import Status


@pytest.mark.parametrize(
    ("question", "note"),
    [
        # Of another person.
        ("Does his mother have diabetes?", "His father has diabetes."),
        ("Does she have glaucoma?", "FH: aunt glaucoma. PMH: migraine."),
        ("Does he smoke?", "His partner smokes ten a day."),
        ("Was the donor hepatitis B positive?", "Recipient hepatitis B positive."),
        # Of another drug, test, organism or device.
        ("Was amiodarone started?", "Metoprolol was started."),
        ("Why was metformin stopped?", "Ramipril was stopped because of a cough."),
        ("What was her ferritin?", "Hb 98, CRP 44."),
        ("What did the blood cultures grow?", "Sputum culture grew Klebsiella."),
        ("Has she got a PICC line?", "A tunnelled dialysis catheter is in place."),
        # Of another side, place, time or day.
        ("Is the left knee swollen?", "The right knee is swollen."),
        ("Is there a fracture of the wrist?", "X-ray of the ankle: fracture."),
        (
            "Did he need dialysis during this admission?",
            "PMH: dialysis for two weeks in 2015.",
        ),
        ("What was the creatinine on the 9th?", "8/6: creat 145, urea 9."),
        # Without the attribute that is asked for.
        ("What is the dose of enoxaparin?", "Enoxaparin was started, see chart."),
        ("How often does she take prednisolone?", "She takes prednisolone 5 mg."),
        ("How many stents were put in?", "Coronary stents were put in."),
        ("What size is the drain?", "Drain: output 40 ml, serous."),
        ("What is her water tablet called?", "Her water tablet was doubled."),
        ("What was the date of the operation?", "The operation went well."),
        # Of another specimen, or only to come.
        ("What was the sodium?", "Urine sodium 61."),
        ("What did the blood cultures grow?", "Blood cultures sent, pending."),
        # Only a condition or a risk.
        (
            "Has he had a blood transfusion?",
            "If Hb is below 70, he will need a blood transfusion.",
        ),
        # An allergy where a drug that is given is asked for.
        ("Which antibiotic was given?", "Allergies: amoxicillin (rash)."),
        ("Is she allergic to trimethoprim?", "Trimethoprim for three days in 2016."),
    ],
)
def test_a_near_miss_is_no_answer(question: str, note: str) -> None:
    answer = archqa.ask(question, note=note)
    assert answer.status is Status.NOT_FOUND
    assert answer.lines == ()
    assert answer.message.startswith("No answer found in the note's")
    assert answer.related
    assert not answer.text.startswith(("Yes", "No."))


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("Did he have a heart attack?", "Admitted with an inferior STEMI."),
        ("Does she have sugar diabetes?", "T2DM since 2012, on gliclazide."),
    ],
)
def test_a_sentence_that_only_names_the_thing_is_shown_without_a_yes(
    question: str, note: str
) -> None:
    answer = archqa.ask(question, note=note)
    assert answer.status is Status.ANSWERED
    assert answer.text == note


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("Has he had a stroke?", "Reviewed stroke warning signs with him."),
        ("Does he have epilepsy?", "Referred to the epilepsy clinic leaflet desk."),
        ("Does he drink alcohol?", "Alcohol gel dispenser refilled at bedside."),
    ],
)
def test_a_name_in_passing_is_not_a_yes(question: str, note: str) -> None:
    assert not archqa.ask(question, note=note).text.startswith("Yes")


@pytest.mark.parametrize(
    ("question", "note", "opening"),
    [
        ("Does his mother have diabetes?", "His mother has type 2 diabetes.", "Yes"),
        ("Did he have a pulmonary embolism?", "CT ruled out pulmonary embolism.", "No"),
        ("Does she have MS?", "Multiple sclerosis remains a possibility.", "Uncertain"),
        ("Is he on a blood thinner?", "Apixaban 5 mg BD.", "Yes"),
    ],
)
def test_what_the_note_says_in_other_words_is_an_answer(
    question: str, note: str, opening: str
) -> None:
    answer = archqa.ask(question, note=note)
    assert answer.status is Status.ANSWERED
    assert answer.text.startswith(opening)


def test_the_numbers_of_a_group_of_tests_are_its_tests() -> None:
    note = "ECG normal.\nNa 138, creat 190, eGFR 28.\nHome tomorrow."
    answer = archqa.ask("What are her kidney numbers?", note=note)
    assert "creat 190" in answer.text


def test_why_the_nearest_passage_does_not_answer_is_said() -> None:
    of_person = archqa.ask("Does she have glaucoma?", note="Her aunt has glaucoma.")
    assert of_person.remarks == ("The nearest passage is about another person.",)
    of_side = archqa.ask("Is the left knee swollen?", note="The right knee is swollen.")
    assert of_side.remarks == ("The nearest passage is about the other side.",)


def test_each_part_of_a_question_is_answered_or_named() -> None:
    note = "Warfarin 3 mg daily.\nSlept well.\nWarfarin was started because of a DVT."
    both = archqa.ask("What dose of warfarin, and why was it started?", note=note)
    assert "3 mg" in both.text
    assert "because of a DVT" in both.text
    assert not both.is_partial
    one = archqa.ask("What dose of warfarin, and who is her landlord?", note=note)
    assert one.is_partial
    assert 'Not answered: "who is her landlord?".' in one.remarks


def test_a_question_about_two_things_gets_a_sentence_for_each() -> None:
    note = "Na 131, K 4.2.\nSlept well.\nFerritin 12."
    answer = archqa.ask("What are her sodium and ferritin?", note=note)
    assert "Na 131" in answer.text
    assert "Ferritin 12" in answer.text


def test_background_before_a_question_does_not_decide() -> None:
    note = "Apixaban 5 mg BD.\nRamipril 2.5 mg od."
    question = "My sister sorts out his tablets. What dose of apixaban is he on?"
    assert archqa.ask(question, note=note).text == "Apixaban 5 mg BD."


def test_a_drug_that_was_stopped_and_resumed_is_not_denied() -> None:
    note = "Prednisolone was stopped in May and resumed last week."
    answer = archqa.ask("Is she on prednisolone?", note=note)
    assert not answer.text.startswith("No")


def test_a_misspelt_or_shortened_word_is_read_and_named() -> None:
    misspelt = archqa.ask("Any siezures?", note="Two seizures this week.")
    assert misspelt.status is Status.ANSWERED
    assert misspelt.remarks == ('Read "siezures" as "seizures".',)
    shortened = archqa.ask("rotig dose", note="Rotigotine 4 mg patch daily.")
    assert shortened.remarks == ('Read "rotig" as "rotigotine".',)


def test_the_probability_of_an_answer_passes_the_threshold_in_a_note_of_one_sentence() -> (
    None
):
    answer = archqa.ask("Who is her landlord?", note="She ate well.")
    assert answer.status is Status.NOT_FOUND
    probability = answer.related[0].probability
    assert probability is not None
    assert probability < 0.3


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("What grew in his blood cultures?", "Blood cultures x2 collected 11/4."),
        ("What germ was in the sputum?", "Sputum sent, on the bench."),
        (
            "Did the scan find a clot in his leg?",
            "Ultrasound of the leg booked for 16:00.",
        ),
        ("What was this morning's sodium?", "Yesterday 18:00: Na 119, Cl 88."),
        (
            "Was the baby given any antibiotics?",
            "Mother given IV gentamicin in labour.",
        ),
        ("Has she had a hysterectomy?", "SISTER:\n- hysterectomy 2009, fibroids"),
        ("What stage is his CKD?", "COPD stage 3, CKD under renal clinic."),
        ("When is her next denosumab due?", "The next zoledronate is due on 14 March."),
    ],
)
def test_what_comes_near_is_no_answer(question: str, note: str) -> None:
    answer = archqa.ask(question, note=note)
    assert answer.status is Status.NOT_FOUND
    assert answer.related


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("What grew in his blood cultures?", "BCx 2/2: MSSA."),
        ("What's growing in the urine?", "Urine: E. coli > 100,000 CFU/ml."),
        ("What grew in the blood cultures?", "Blood cultures: no growth at 5 days."),
        ("How many polyps were removed?", "Three small polyps were removed."),
        ("What was yesterday's sodium?", "Yesterday 18:00: Na 119, Cl 88."),
    ],
)
def test_what_was_asked_is_an_answer(question: str, note: str) -> None:
    assert archqa.ask(question, note=note).status is Status.ANSWERED


def test_takes_in_place_of_is_a_denial() -> None:
    answer = archqa.ask(
        "Is she taking aspirin?", note="She takes clopidogrel in place of aspirin."
    )
    assert answer.text.startswith("No")


def test_a_heading_in_small_letters_begins_a_section_of_its_own() -> None:
    note = (
        "Past medical history\nMigraine - to be checked with the summary of the GP\n"
        "Family history\nAsthma\nCrohn's disease\nExam\nTender RIF, guarding"
    )
    answer = archqa.ask("Does she have asthma?", note=note)
    assert answer.status is Status.NOT_FOUND
