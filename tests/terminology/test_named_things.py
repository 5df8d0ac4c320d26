"""What questions and sentences name, and which of it is a kind of the other."""

import pytest

from archqa.terminology.concept import Relation
from archqa.terminology.concepts import is_kind_of, named_things
from archqa.terminology.people import body_parts, site_names, specimen_names


def _is_named_by(question: str, sentence: str) -> bool:
    """Tell whether a sentence names what a question names, or a kind of it."""
    return any(
        is_kind_of(thing.concept, asked.concept)
        for thing in named_things(sentence)
        for asked in named_things(question)
    )


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("does she have diabetes?", "T1DM since childhood"),
        ("did he have a heart attack?", "NSTEMI in 2016"),
        ("is he on a water pill?", "Bumetanide 1 mg OD"),
        ("any blood thinner?", "enox 40 mg nightly"),
        ("was she given an antibiotic?", "IV Tazocin started"),
        ("what were her kidney numbers?", "creat 140, K 4.4"),
        ("what was the temperature?", "T 38.4, HR 110"),
        ("was she on a breathing machine?", "BiPAP overnight"),
        ("does he use any drugs?", "Utox positive for opiates"),
        ("camera test of the stomach?", "OGD tomorrow"),
        ("did she have a belly scan?", "USS abdomen normal"),
        ("ultrasound of the heart?", "TTE: EF 35%"),
        ("clot in the lung?", "CTPA: segmental PE"),
        ("is she coughing up blood?", "Large haemoptysis"),
        ("which germ grew?", "Blood cultures: Klebsiella"),
        ("any bacteria?", "MSSA in 2/2 bottles"),
        ("did the virus test find anything?", "RSV detected"),
        ("does he have a pacemaker?", "PPM in situ"),
        ("does she have a central line?", "PICC in left arm"),
        ("is there a catheter?", "Foley draining well"),
        ("has he had surgery?", "Cholecystectomy 2009"),
        ("did he break a bone?", "hip fracture repaired"),
        ("any vaccine in 2020?", "flu jab given"),
        ("any catheters?", "dialysis catheter removed"),
        ("urinary catheter?", "suprapubic catheter changed"),
        ("does he have a central line?", "right IJ triple-lumen"),
        ("does she have a drain?", "EVD clamped"),
        ("does he have a stent?", "JJ stent in the left ureter"),
        ("did he have heart bypass surgery?", "LIMA to LAD 2014"),
        ("did he have a hernia repair?", "inguinal hernia repair 2010"),
        ("x-ray?", "films of the wrist"),
        ("does he need oxygen?", "nasal prongs overnight"),
        ("does he need oxygen?", "SpO2 94% on 2 L"),
        ("was he on NIV?", "CPAP 5 cmH2O"),
        ("was he given any blood?", "2 units of packed cells"),
        ("did she get platelets?", "1 pool of platelets"),
        ("is he coughing up any blood?", "phlegm streaked with red"),
        ("vomiting any blood?", "large haematemesis"),
        ("any blood in his pee?", "frank haematuria"),
        ("does she have a leaky valve?", "mod TR"),
        ("does he have MS?", "relapsing multiple sclerosis"),
        ("does he have MS?", "rheumatic mitral stenosis"),
        ("did she lose the baby?", "miscarriage at 9 weeks"),
        ("how many pregnancy losses?", "lost three pregnancies"),
        ("hepatitis B vaccine?", "immunised against hepatitis B"),
        ("what was the potassium?", "Na 131, K 5.9, Cl 101"),
        ("has he passed any wind?", "flatus overnight"),
        ("has she opened her bowels?", "BNO 3/7"),
        ("did he take a tumble?", "fell over his Zimmer frame"),
        ("is she burning up?", "T 39.1, HR 110"),
        ("what were her iron stores?", "ferritin 12"),
        ("is she on background insulin?", "Tresiba 20 units nocte"),
        ("is she on mealtime insulin?", "Apidra with food"),
        ("did he have a stroke?", "left MCA infarct"),
        ("did she have her ovaries taken out?", "TAH and BSO"),
        ("does he have a water tube?", "16Ch urethral catheter"),
        ("how many fags?", "smokes 1 ppd"),
        ("is she allergic to nuts?", "peanuts: hives"),
    ],
)
def test_the_words_of_a_note_are_a_kind_of_the_words_of_a_question(
    question: str, sentence: str
) -> None:
    assert _is_named_by(question, sentence)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("is he on apixaban?", "takes warfarin"),
        ("is he on furosemide?", "an antihypertensive was added"),
        ("does she have hypertension?", "pulmonary hypertension"),
        ("what was her creatinine?", "urine creatinine 90"),
        ("does he have pneumonia?", "an infection is likely"),
        ("did E. coli grow?", "MRSA in the wound swab"),
        ("does she have a port?", "PICC removed"),
        ("when was the MRI?", "CT head normal"),
        ("urinary catheter?", "epidural catheter removed"),
        ("epidural catheter?", "Foley removed"),
        ("PICC?", "right IJ CVC"),
        ("pacemaker?", "temporary pacing wire"),
        ("chest drain?", "biliary drain"),
        ("PEG tube?", "NG tube"),
        ("biliary stent?", "ureteric stent"),
        ("heart bypass?", "fem-pop bypass"),
        ("CABG?", "gastric bypass"),
        ("inguinal hernia repair?", "hydrocele repair"),
        ("colonoscopy?", "flexible sigmoidoscopy"),
        ("nasal cannula?", "Venturi 28%"),
        ("nasal cannula?", "HEENT: NC/AT"),
        ("was he on CPAP?", "BiPAP overnight"),
        ("was he given blood?", "blood cultures sent"),
        ("did she get platelets?", "platelets 120"),
        ("aortic stenosis?", "aortic regurgitation"),
        ("aortic stenosis?", "MS with a gradient of 12"),
        ("does he have diabetes?", "diabetes insipidus"),
        ("is she breastfeeding?", "lactate 3.1"),
        ("any metastases?", "met with the family"),
        ("was the abscess drained?", "cefalexin 500 mg b.i.d."),
        ("was he given vitamin K?", "K 4.4"),
        ("what was the potassium?", "vitamin K 10 mg"),
        ("what was the heart rate?", "feed at 50 ml/hr"),
        ("is she on background insulin?", "NovoRapid with meals"),
        ("is she on mealtime insulin?", "Lantus 20 units nocte"),
        ("did she have a stroke?", "TIA in 2019"),
        ("does he have sickle cell disease?", "HbAS"),
        ("has he opened his bowels?", "passive range of motion"),
    ],
)
def test_something_similar_or_wider_is_not_what_is_asked(
    question: str, sentence: str
) -> None:
    assert not _is_named_by(question, sentence)


def test_the_longest_words_are_named_with_all_their_concepts() -> None:
    named = [
        (thing.concept.kind, thing.concept.name) for thing in named_things("chest pain")
    ]
    assert named == [("condition", "chest pain")]
    kinds = {thing.concept.kind for thing in named_things("pacemaker")}
    assert kinds == {"procedure", "device"}


def test_an_opposite_is_named_as_such() -> None:
    (thing,) = named_things("afebrile")
    assert (thing.concept.name, thing.relation) == ("fever", Relation.OPPOSITE)


def test_two_concepts_of_one_thing_are_kinds_of_each_other() -> None:
    device, procedure = (
        next(
            thing.concept
            for thing in named_things("pacemaker")
            if thing.concept.kind == kind
        )
        for kind in ("device", "procedure")
    )
    assert is_kind_of(device, procedure)
    assert is_kind_of(procedure, device)


def test_room_air_is_the_opposite_of_oxygen() -> None:
    (thing,) = named_things("97% RA")
    assert (thing.concept.name, thing.relation) == ("oxygen", Relation.OPPOSITE)


@pytest.mark.parametrize(
    ("text", "specimens"),
    [
        ("Blood cultures: E. coli", {"blood"}),
        ("MSU grew coliforms", {"urine"}),
        ("BAL: no growth", {"sputum"}),
        ("CSF clear", {"csf"}),
        ("PICC tip: CoNS", {"line tip"}),
        ("blood pressure 120/80", set()),
    ],
)
def test_specimens_are_named(text: str, specimens: set[str]) -> None:
    assert body_parts(text) & specimen_names() == specimens


def test_neighbouring_parts_of_a_limb_are_parts_of_their_own() -> None:
    assert body_parts("left calf") & site_names() == {"calf"}
    assert body_parts("elbow film") & site_names() == {"elbow"}
