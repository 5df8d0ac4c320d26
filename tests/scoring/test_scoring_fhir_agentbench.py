"""FHIR-AgentBench: official and strict retrieval scores, and answers by the judge's rules."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import Scores, ScoringError
from scoring.fhir_answers import is_correct, parse_gold_answer
from scoring.tasks import fhir_agentbench

WEIGHT = fhir_agentbench.Question(
    "a",
    "What was the patient's last weight?",
    "[[70.3]]",
    {"Observation": ["o1", "o2"]},
    "weight",
)
DRUG = fhir_agentbench.Question(
    "b",
    "Which drug?",
    "[['Senna']\n ['Lactulose']]",
    {"Medication": ["m"], "MedicationRequest": ["r"]},
    "drug",
)
NOTHING = fhir_agentbench.Question(
    "c", "Has he been given any drug?", "[[0]]", {}, "drug"
)


def record(
    question: fhir_agentbench.Question,
    answer: Any = "no answer",
    retrieved: Any = None,
    **fields: Any,
) -> dict[str, Any]:
    return {
        "question_id": question.question_id,
        "agent_answer": answer,
        "agent_fhir_resources": retrieved or {},
        **fields,
    }


def score(*records: dict[str, Any], **settings: Any) -> Scores:
    answered = {record["question_id"] for record in records}
    key = [
        question
        for question in (WEIGHT, DRUG, NOTHING)
        if question.question_id in answered
    ]
    return fhir_agentbench.score(records, key, bootstrap=0, **settings)


def test_official_recall_is_all_or_nothing_and_strict_recall_is_a_share() -> None:
    scores = score(record(WEIGHT, retrieved={"Observation": ["o1", "x"]})).scores
    assert (scores["precision"], scores["recall"]) == (0.5, 0)
    assert (scores["strict_precision"], scores["strict_recall"]) == (0.5, 0.5)


def test_official_predictions_are_filtered_to_the_golds_types_and_strict_ones_are_not() -> (
    None
):
    scores = score(
        record(
            WEIGHT, retrieved={"Observation": ["o1", "o2"], "Encounter": ["e1", "e2"]}
        )
    ).scores
    assert scores["precision"] == 1
    assert scores["strict_precision"] == 0.5


def test_officially_a_resource_listed_twice_counts_twice() -> None:
    scores = score(
        record(WEIGHT, retrieved={"Observation": ["o1", "o2", "x", "x"]})
    ).scores
    assert scores["precision"] == 0.5
    assert scores["strict_precision"] == pytest.approx(2 / 3)


def test_retrieving_for_a_question_without_gold_is_officially_forgiven_and_strictly_not() -> (
    None
):
    scores = score(record(NOTHING, retrieved={"Observation": ["o1"]}))
    assert (scores.scores["precision"], scores.scores["recall"]) == (1, 1)
    assert scores.scores["strict_precision"] == 0


def test_questions_without_a_precision_or_a_recall_are_left_out_of_that_mean() -> None:
    # Weight: nothing retrieved, so no precision. Drug: precision 1, recall 1.
    scores = score(record(WEIGHT), record(DRUG, retrieved=DRUG.resources)).scores
    assert (scores["precision"], scores["recall"]) == (1, 0.5)
    assert scores["f1"] == pytest.approx(2 * 1 * 0.5 / 1.5)


def test_an_absent_record_counts_at_the_floor_with_a_warning() -> None:
    scores = fhir_agentbench.score(
        [record(WEIGHT, "70.3", WEIGHT.resources)], [WEIGHT, NOTHING], bootstrap=0
    )
    assert scores.scores["precision"] == scores.scores["answer_correctness"] == 0.5
    assert "1 of 2 cases have no answer and get the floor: c." in scores.warnings


def test_cited_scores_need_the_cited_ids() -> None:
    assert "cited_f1" in score(record(WEIGHT)).missing
    cited = score(
        record(
            WEIGHT,
            retrieved=WEIGHT.resources,
            cited_fhir_resources={"Observation": ["o1"]},
        )
    )
    assert (cited.scores["strict_cited_recall"], cited.scores["strict_recall"]) == (
        0.5,
        1,
    )


def test_errors_and_overlong_inputs_are_wrong_even_when_the_answer_is_right() -> None:
    wrong = [
        record(WEIGHT, "70.3", error="timeout"),
        record(NOTHING, "Input tokens exceeded: 40000 > 32000"),
    ]
    assert score(*wrong).scores["answer_correctness"] == 0


def test_what_only_a_judge_can_decide_is_wrong_without_one_and_is_counted() -> None:
    scores = score(record(DRUG, "He was given Senna first, later Lactulose."))
    assert scores.scores["answer_correctness"] == 0
    assert (
        "1 replies only a judge could decide; without one they count as wrong."
        in scores.warnings
    )
    assert "judge:none" in scores.signatures["answer_correctness"]


def test_the_judge_is_asked_only_where_no_rule_is_sure_and_its_majority_counts() -> (
    None
):
    asked: list[str] = []

    def judge(question: str, reference: str, reply: str) -> bool:
        asked.append(reply)
        return len(asked) != 2

    rows = [
        record(WEIGHT, "70.3"),
        record(DRUG, "He was given Senna first, later Lactulose."),
    ]
    scores = score(*rows, judge=judge, judge_name="o4-mini", votes=3)
    assert asked == ["He was given Senna first, later Lactulose."] * 3
    assert scores.scores["answer_correctness"] == 1
    assert [row["votes"] for row in scores.disagreements] == [[True, False, True]]
    assert "judge:o4-mini|votes:3" in scores.signatures["answer_correctness"]


def test_the_same_scores_come_by_resource_type_template_kind_size_and_precision() -> (
    None
):
    rows = [
        record(WEIGHT, "70.3", WEIGHT.resources),
        record(DRUG, "Senna", DRUG.resources),
        record(NOTHING),
    ]
    scores = score(*rows)
    by_type = scores.tables["by_resource_type"]
    assert set(by_type) == {"{Observation}", "{Medication, MedicationRequest}", "{}"}
    assert (
        by_type["{Observation}"]["answer_correctness"]
        == by_type["{Observation}"]["f1"]
        == 1
    )
    assert scores.tables["by_template"]["drug"]["questions"] == 2
    assert set(scores.tables["by_answer_kind"]) == {"number", "list", "nothing"}
    assert set(scores.tables["by_gold_size"]) == {"0", "2-5"}
    assert scores.tables["by_precision"]["0.8-1.0"]["questions"] == 3
    assert scores.as_json()["scores"]["by_template"] == scores.tables["by_template"]


def test_all_malformed_records_are_listed_at_once() -> None:
    with pytest.raises(ScoringError) as caught:
        fhir_agentbench.score(
            [
                {"answer": "x"},
                record(WEIGHT, retrieved={"Observation": "o1"}),
                record(DRUG),
                record(DRUG),
            ],
            [WEIGHT],
        )
    assert "record 0: no question_id" in str(caught.value)
    assert "question a: agent_fhir_resources must be" in str(caught.value)
    assert "question b: answered 2 times" in str(caught.value)


TIME = "When was the last lab test of the patient?"
ADMISSION = "What was the admission time of the patient?"
COUNT = "How many drugs was the patient given?"


@pytest.mark.parametrize(
    ("question", "gold", "reply", "official", "strict"),
    [
        ("Weight?", "[[70.3]]", "[[70.3]]", True, True),
        ("Weight?", "[[70.3]]", "The final answer is: 70.3 kg", True, True),
        ("Weight?", "[[70.3]]", "He weighed 70 kg on 2133-01-02.", True, False),
        ("Weight?", "[[70.3]]", "71", False, False),
        ("Weight?", "[[70.3]]", "First 68.1 kg, then 70.3 kg.", None, None),
        ("Weight?", "[[70.3]]", "No answer", False, False),
        ("Weight?", "[[70.3]]", None, False, False),
        ("Volume?", "[[25522]]", "25,522 ml", True, True),
        ("Days?", "[[0.89844907]]", "0.898449074", True, True),
        ("Change?", "[[-14.]]", "-14.0", True, True),
        ("Change?", "[[-14.]]", "14", False, False),
        (TIME, "[['2133-12-31 02:00:00']]", "2133-12-31T02:00:00-05:00", True, True),
        (TIME, "[['2133-12-31 02:00:00']]", "On December 31, 2133.", True, False),
        (TIME, "[['2133-12-31 02:00:00']]", "2133-12-31 02:00", True, True),
        (TIME, "[['2133-12-31 02:00:00']]", "It was on 2133-12-30.", False, False),
        (ADMISSION, "[['2133-12-31 02:00:00']]", "2133-12-31 02:00:40", True, False),
        (ADMISSION, "[['2133-12-31 02:00:00']]", "2133-12-31 03:00:00", False, False),
        (ADMISSION, "[['2133-12-31 02:00:00']]", "2133-12-31", False, False),
        ("When was the procedure?", "[['2133-12-31 00:00:00']]", "2133-12-31", True, True),
        ("Has he?", "[[1]]", "Yes, twice in 2133.", True, True),
        ("Has he?", "[[1]]", "No.", False, False),
        ("Has he?", "[[0]]", "false", True, True),
        (COUNT, "[[1]]", "1", True, True),
        (COUNT, "[[1]]", "2", False, False),
        (COUNT, "[[5]]", "He was given five drugs in 2133.", None, None),
        ("What was the first creatinine?", "[[1.]]", "It was 1.0 mg/dL.", True, True),
        (COUNT, "[[5]]", "There are 5 such drugs.", True, True),
        ("Has he been given aspirin?", "[[1]]", "Aspirin was prescribed in 2133.", None, None),
        ("Weight?", "[[70.3]]", "There are no weights on record.", False, False),
        ("Weight?", "[[70.3]]", '{"answer": 70.3}', True, True),
        ("Weight?", "[[70.3]]", "**The final answer is:** **70.3**.", True, True),
        ("Which drug?", "[['Senna']]", "senna", True, True),
        ("Which drug?", "[['Senna']]", "['Senna', 'Lactulose']", False, False),
        ("Which drug?", "[['Senna']]", "She was given Senna.", None, None),
        ("Which drugs?", "[['Senna']\n ['Lactulose']]", "Lactulose, Senna", True, True),
        ("Which drugs?", "[['Senna']\n ['Lactulose']]", '["Lactulose", "Senna"]', True, True),
        ("Which drugs?", "[['Senna']\n ['Lactulose']]", "['Senna']", False, False),
        ("Weights?", "[[36.8]\n [36.8]]", "[[36.8]\n [36.8]]", True, True),
        ("Weights?", "[[36.8]\n [36.8]]", "[36.8]", False, False),
        ("Weights?", "[[36.8]\n [40.1]]", "[36.8, 40.1, 40.1]", True, False),
        ("Sex?", "[['M']]", "male", True, True),
        ("Which drug?", "[['Senna']]", ["Senna"], True, True),
        ("Weight?", "[[70.3]]", 70.3, True, True),
    ],
)  # fmt: skip
def test_a_reply_is_decided_by_the_benchmarks_rules_and_strictly(
    question: str, gold: str, reply: Any, official: bool | None, strict: bool | None
) -> None:
    values = parse_gold_answer(gold)
    assert is_correct(question, values, reply, no_answer=False) is official
    assert is_correct(question, values, reply, no_answer=False, strict=True) is strict


@pytest.mark.parametrize(
    ("gold", "reply", "official", "strict"),
    [
        ("[]", "no answer", True, True),
        ("[]", "[]", True, True),
        ("[[None]]", "None", True, True),
        ("[[None]]", "There are no such records for this patient.", True, True),
        ("[]", "2133-12-31 02:00:00", False, False),
        ("[[0]]", "0", True, True),
        ("[[0]]", "No", True, True),
        ("[[0]]", "no answer", True, False),
        ("[[0]]", "3", False, False),
        ("[]", "He had it on the ward.", None, None),
    ],
)
def test_a_question_without_gold_resources_wants_no_answer(
    gold: str, reply: str, official: bool | None, strict: bool | None
) -> None:
    values = parse_gold_answer(gold)
    assert is_correct("When?", values, reply, no_answer=True) is official
    assert is_correct("When?", values, reply, no_answer=True, strict=True) is strict


@given(st.floats(-1e5, 1e5).map(lambda number: round(number, 3)))
def test_a_number_is_right_as_itself_in_a_list_and_after_the_phrase(
    number: float,
) -> None:
    gold = parse_gold_answer(f"[[{number!r}]]")
    for reply in (
        repr(number),
        f"[[{number!r}]]",
        f"I counted. The final answer is: {number!r}",
        number,
    ):
        assert (
            is_correct("How much?", gold, reply, no_answer=False, strict=True) is True
        )


@given(
    st.lists(
        st.floats(0, 300).map(lambda number: round(number, 1)), min_size=2, max_size=8
    ),
    st.randoms(),
)
def test_lists_are_compared_whatever_their_order(
    numbers: list[float], random: Any
) -> None:
    gold = parse_gold_answer(
        "[" + "\n ".join(f"[{number}]" for number in numbers) + "]"
    )
    shuffled = random.sample(numbers, len(numbers))
    assert (
        is_correct("Weights?", gold, str(shuffled), no_answer=False, strict=True)
        is True
    )
    assert (
        is_correct("Weights?", gold, str(shuffled[1:]), no_answer=False, strict=True)
        is False
    )


@given(st.text(max_size=60))
def test_any_reply_is_decided_or_left_open_without_failing(reply: str) -> None:
    for gold in ("[[70.3]]", "[['2133-12-31 02:00:00']]", "[['Senna']]", "[]"):
        assert is_correct(
            "When?", parse_gold_answer(gold), reply, no_answer=gold == "[]"
        ) in (
            True,
            False,
            None,
        )


def test_every_gold_answer_of_the_dev_questions_is_right_as_it_stands_and_after_the_phrase(
    shared: Any,
) -> None:
    import csv

    csv.field_size_limit(10**8)
    with (shared / "fhir" / "fhir-agentbench" / "questions_dev.csv").open(
        newline="", encoding="utf-8"
    ) as lines:
        rows = list(csv.DictReader(lines))
    wrong = [
        row["question_id"]
        for row in rows
        for said in ("", "I counted 3 of 7. The final answer is: ")
        if not is_correct(
            row["question"],
            parse_gold_answer(row["true_answer"]),
            said + row["true_answer"],
            no_answer=row["true_fhir_ids"] == "{}",
            strict=True,
        )
    ]
    assert len(rows) == 2522
    assert wrong == []
