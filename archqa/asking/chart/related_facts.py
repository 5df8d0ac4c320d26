"""What the resources hold on the things that a question names, where it cannot be read as a query."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date

from archqa.asking.answer import Answer, AnswerLine, Status
from archqa.asking.asked_words import blanked
from archqa.chart.search_terms import content_words, without_carrying_words
from archqa.query.questions.everyday import Vocabulary
from archqa.query.questions.everyday.phrases import mark
from archqa.query.questions.everyday.reader import DECIDING
from archqa.terminology.concepts import find_concepts
from archqa.terminology.people import body_part_spans

AskRecord = Callable[[str], Answer]
"""Answers a question in everyday words from the resources."""

_LIMITING = frozenset(
    ("test", "extreme", "summary", "flag", "class", "per", "stay", "outcome", "trend", "judgement")
)
"""Kinds of marks (`archqa.query.questions.everyday.clause`) that limit what is asked of a thing."""

_QUESTIONS = {
    "measurement": "{} results",
    "drug": "{} orders",
    "drug_class": "{} orders",
    "condition": "{} diagnosis",
    "vaccine": "{} vaccinations",
    "procedure": "{} procedures",
}
"""The simple question about a concept of each kind."""

_MAX_NAMED, _MAX_LINES = 3, 4
"""Names of a question that are asked for, and lines on each."""


def related_facts(
    question: str, ask: AskRecord, vocabulary: Vocabulary, today: date
) -> list[Answer]:
    """Return what the resources hold on each thing that a question names, in its time.

    Answers are answered or not found; what the grammar cannot ask is left out. Of a name that means
    several things (digoxin: a drug and a level) those count which the resources have.
    """
    answers: list[Answer] = []
    for questions in related_questions(question, vocabulary, today):
        all_meanings = [ask(simple) for simple in questions]
        recorded = [answer for answer in all_meanings if answer.status is Status.ANSWERED]
        absent = [answer for answer in all_meanings if answer.status is Status.NOT_FOUND]
        answers += [_shortened(answer) for answer in recorded] or absent[:1]
    return answers


def related_questions(question: str, vocabulary: Vocabulary, today: date) -> list[tuple[str, ...]]:
    """Return simple questions for each thing that a question names, three at most."""
    times = [each.text for each in mark(question, vocabulary, today).of("span")]
    time = times[0] if len(times) == 1 else ""
    named: dict[tuple[str, ...], None] = {}
    for questions in _named(question):
        named[tuple(" ".join(f"{words} {time}".split()) for words in questions)] = None
    return list(named)[:_MAX_NAMED]


def _named(question: str) -> Iterator[list[str]]:
    """Yield for each name the simple questions about its meanings."""
    of_body = body_part_spans(question)
    kinds: dict[tuple[int, int], dict[str, None]] = {}
    for match in find_concepts(question):
        is_part = any(start <= match.start and match.end <= end for start, end in of_body)
        if not is_part:  # "The kidneys" are more than their laboratory values.
            kinds.setdefault((match.start, match.end), {})[match.concept.kind] = None
    for (start, end), of_name in kinds.items():
        yield [_QUESTIONS[kind].format(question[start:end]) for kind in of_name]


def _shortened(answer: Answer) -> Answer:
    """Return an answer with its newest lines; how many others there are is said."""
    left_out = len(answer.lines) - _MAX_LINES
    if left_out <= 0:
        return answer
    dates = {row.id: row.date for row in answer.evidence}
    newest_first = sorted(answer.lines, key=lambda line: _newest(line, dates), reverse=True)
    kept = [line for line in answer.lines if line in newest_first[:_MAX_LINES]]
    cited = {name for line in kept for name in line.citations}
    remark = f"{left_out} earlier lines on this are left out: ask for them by name."
    return answer.model_copy(
        update={
            "lines": tuple(kept),
            "evidence": tuple(row for row in answer.evidence if row.id in cited),
            "remarks": (*answer.remarks, remark),
        }
    )


def _newest(line: AnswerLine, dates: Mapping[str, str]) -> str:
    return max((dates.get(name, "") for name in line.citations), default="")


def is_all_named(question: str, vocabulary: Vocabulary, today: date) -> bool:
    """Whether concepts, times and words that carry nothing of their own are all of a question."""
    clause = mark(question, vocabulary, today)
    if clause.words & DECIDING or any(each.kind in _LIMITING for each in clause.marks):
        return False
    spans = [(match.start, match.end) for match in find_concepts(question)]
    rest = blanked(question, spans)
    for each in clause.of("span"):
        rest = re.sub(re.escape(each.text), " ", rest, flags=re.IGNORECASE)
    return not content_words(without_carrying_words(rest))
