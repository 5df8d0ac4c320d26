"""Yes, no or not stated: read from the evidence's own words, or not said at all."""

import pytest

from archqa.notes.question_form import is_judgement
from archqa.notes.yes_no import YesNo, is_yes_no_question, yes_no_answer

YES, NO, NOT_STATED = YesNo.YES, YesNo.NO, YesNo.NOT_STATED
UNCERTAIN = YesNo.UNCERTAIN


@pytest.mark.parametrize(
    "question",
    [
        "Does he have a fever?",
        "So did they find cancer",
        "any fever?",
        "smoker?",
        "allergic to shellfish",
        "cigarettes?",
        "pregnant",
        "on blood thinners?",
        "belly tender?",
        "still on oxygen?",
        "Hematoma at the puncture site?",
        "Any pain when he walks?",
        "PCN allergic - are cephalosporins ok?",
        "Has she had a stroke or a TIA before?",
        "Kidney trouble in the family?",
    ],
)
def test_yes_or_no_answers(question: str) -> None:
    assert is_yes_no_question(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "A1c?",
        "EF?",
        "aspirin dose?",
        "job?",
        "weight at discharge?",
        "allergies?",
        "When did she fall?",
        "Can you tell me which drug was stopped?",
        "Is it known when she fell?",
        "Any idea why he fell?",
        "Was it the left or the right knee?",
        "Is the tumor benign or malignant?",
        "Packs per day?",
    ],
)
def test_more_than_yes_or_no_is_asked_or_it_is_undecidable(question: str) -> None:
    assert not is_yes_no_question(question)
    assert yes_no_answer(question, ["No fever."]) is None


@pytest.mark.parametrize(
    ("question", "sentence", "verdict"),
    [
        # What is affirmed or denied, in other words and by opposites.
        ("Any fever?", "He denies fever, chills or sweats.", NO),
        ("Any fever?", "Afebrile since Tuesday.", NO),
        ("Has he been throwing up?", "No nausea or emesis.", NO),
        ("Any jaundice?", "Sclerae are anicteric.", NO),
        ("smoker?", "She is a nonsmoker.", NO),
        ("smoker?", "He smokes one pack per day.", YES),
        ("Did the biopsy show cancer?", "The biopsy was benign.", NO),
        ("Did the biopsy show cancer?", "Biopsy showed adenocarcinoma.", YES),
        ("Was it a re-bleed?", "There was no rebleeding.", NO),
        ("Any growth in the culture?", "Blood cultures were negative.", NO),
        ("Ever pregnant?", "She has never been pregnant.", NO),
        ("Pneumonia?", "Pneumonia was ruled out.", NO),
        ("Is the wound infected?", "The wound is not infected.", NO),
        ("Could he walk?", "He was unable to walk.", NO),
        ("Is her gait normal?", "Gait is normal.", YES),
        ("Is her gait normal?", "Gait is abnormal.", NO),
        ("Did the inhaler help?", "The inhaler did not help.", NO),
        ("Any nocturia?", "Frequency every three hours, nocturia times 0.", NO),
        ("Is the airway open?", "Without mass, with good patent airway.", YES),
        # The scope of a denial ends at "but", a new clause or a new sentence.
        ("cough?", "No fever but has cough.", YES),
        ("fever?", "No fever but has cough.", NO),
        ("chills?", "No fever. He has chills.", YES),
        ("chest pain?", "He refused a tracing, and he has chest pain.", YES),
        ("Does he have a headache?", "There is a headache without nausea.", YES),
        # What is left open, feared, or told of a relative.
        (
            "Does she have pneumonia?",
            "Possible pneumonia at the right base.",
            UNCERTAIN,
        ),
        ("Does she have pneumonia?", "Pneumonia cannot be excluded.", UNCERTAIN),
        ("PE?", "CT angiogram to rule out pulmonary embolism.", UNCERTAIN),
        ("Does he have cancer?", "He is worried about cancer.", UNCERTAIN),
        ("Does she have diabetes?", "Her mother has diabetes.", NOT_STATED),
        (
            "Does she have diabetes?",
            "FAMILY HISTORY: Positive for diabetes.",
            NOT_STATED,
        ),
        (
            "Does diabetes run in her family?",
            "FAMILY HISTORY: Positive for diabetes.",
            YES,
        ),
        ("Does he have a fever?", "Mother states he has had a fever.", YES),
        # What has ended.
        ("Is he still on warfarin?", "Warfarin was stopped in May.", NO),
        ("Does she still have headaches?", "Her headaches have resolved.", NO),
        ("Does he no longer smoke?", "He quit smoking in 2001.", YES),
        ("Does he no longer smoke?", "He still smokes.", NO),
        ("smoker?", "He quit smoking ten years ago.", NO),
        ("Did she ever have a seizure?", "She has a history of seizures.", YES),
        # Negated questions are answered as the others: the sentence follows.
        ("Didn't she have a stroke?", "She had a stroke in 2004.", YES),
        ("Is he not on Coumadin?", "He is not on Coumadin.", NO),
        # What is allowed.
        ("Can she drive?", "She was instructed not to drive for two weeks.", NO),
        ("May she drive?", "She may drive.", YES),
        # Classes and their members.
        ("Is he on a blood thinner?", "He takes warfarin.", YES),
        ("Is he on warfarin?", "He is not on any blood thinners.", NO),
        ("Any chest pain?", "He denies any pain.", NO),
        ("any drug allergies?", "NKDA.", NO),
        # Denials, doubts and narrow escapes in other words.
        ("Did he have a pulmonary embolism?", "CTPA excluded PE.", NO),
        ("Does she have a DVT?", "PE was ruled out and DVT confirmed.", YES),
        ("Any metastases?", "The liver is clear of metastases.", NO),
        ("Does he have MRSA?", "MRSA swab came back negative.", NO),
        ("Did she fall?", "She almost fell in the bathroom.", NO),
        ("Does she have headaches?", "She has almost daily headaches.", YES),
        ("Does she have sarcoidosis?", "Sarcoid remains unproven.", UNCERTAIN),
        ("Does he have diabetes?", "His mum has diabetes.", NOT_STATED),
    ],
)
def test_the_polarity_of_a_sentence_is_read(
    question: str, sentence: str, verdict: YesNo
) -> None:
    assert yes_no_answer(question, [sentence]) is verdict


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        # Another thing, a part of it, another site or side.
        ("night sweats?", "He denies fever, chills and cough."),
        ("night sweats?", "No fever."),
        ("Any pain?", "He denies chest pain."),
        ("latex allergy?", "He denies penicillin allergy."),
        ("Is he on a blood thinner?", "He is not on warfarin."),
        ("Is he on warfarin?", "He is on a blood thinner."),
        ("right knee swelling?", "No swelling of the left knee."),
        ("Is the liver normal?", "The liver is enlarged; kidneys are normal."),
        ("Any nausea or vomiting?", "She denies nausea."),
        ("any drug allergies?", "ALLERGIES: Refer to chart."),
        # Plans, warnings and conditions affirm nothing.
        ("any fever?", "Return if fever develops."),
        ("Did he have surgery?", "Surgery is planned for May."),
        ("Does she have heart failure?", "The risk of heart failure was discussed."),
        ("Will she get a transfusion?", "Blood loss was large; she had a transfusion."),
        (
            "Does the chest pain go into his arm?",
            "Chest pain, worse when he lifts his arm.",
        ),
        ("Leg clot?", "Possible deep venous thrombosis; ultrasound was negative."),
        # A test called negative was done.
        ("Did he have a colonoscopy?", "Colonoscopy was negative."),
        ("Was he tested for HIV?", "HIV was negative."),
        # Affirmed only in part, or of another time.
        ("Does he get winded?", "He denies cough, dyspnea with stairs only."),
        ("Is he still smoking?", "He has a history of smoking."),
        ("Any headaches?", "Her headaches have resolved."),
        ("Is the pain coming from her heart?", "She has chest pain and heart failure."),
        ("Is the rash getting smaller?", "There is a rash."),
    ],
)
def test_nothing_is_said_where_the_polarity_is_not_certain(
    question: str, sentence: str
) -> None:
    assert yes_no_answer(question, [sentence]) is None


def test_sentences_that_contradict_each_other_give_no_answer() -> None:
    assert (
        yes_no_answer("Any fever?", ["She denies fever.", "She had a fever."]) is None
    )


def test_a_sentence_that_says_nothing_of_it_does_not_change_the_answer() -> None:
    assert (
        yes_no_answer("Any fever?", ["She was seen on Monday.", "She denies fever."])
        is NO
    )


def test_no_evidence_gives_no_answer() -> None:
    assert yes_no_answer("Any fever?", []) is None


@pytest.mark.parametrize(
    "question",
    [
        "Is it safe to stop the aspirin?",
        "Should I take it with food?",
        "should she keep driving",
        "Is her diabetes under control?",
        "Will he walk again?",
        "Is it serious?",
        "What are the chances that it comes back?",
        "Do you think he has cancer?",
        "Is this the right treatment?",
        "Could it be cancer?",
        "So is she going to be ok?",
        "How long does he have?",
        "What's the prognosis?",
    ],
)
def test_a_judgement_or_a_prediction_is_asked_for(question: str) -> None:
    assert is_judgement(question)


@pytest.mark.parametrize(
    "question",
    [
        "aspirin dose?",
        "Is she on aspirin?",
        "What should she eat before the scan?",
        "How often should he change the dressing?",
        "When can he drive?",
        "Did he fall?",
        "Which disc was bad?",
        "How long has he had the cough?",
        "Was the tumor malignant?",
    ],
)
def test_a_fact_is_asked_for(question: str) -> None:
    assert not is_judgement(question)
