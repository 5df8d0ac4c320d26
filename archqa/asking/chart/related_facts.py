"""What the resources hold on the things that a question names, where it cannot be read as a query."""

import re
from collections.abc import Callable, Iterator
from datetime import date

from archqa.asking.answer import Answer, Status
from archqa.asking.asked_words import blanked
from archqa.asking.word_patterns import read_word_lists
from archqa.chart.search_terms import content_words, without_carrying_words
from archqa.query.concepts.phrases import find_concepts
from archqa.query.everyday import Vocabulary
from archqa.query.everyday.marking import mark

AskRecord = Callable[[str], Answer]
"""Answers a question in everyday words from the resources."""

_MAX_QUESTIONS = 3


def related_facts(
    question: str, ask: AskRecord, vocabulary: Vocabulary, today: date
) -> list[Answer]:
    """Return what the resources hold on each concept that a question names, in its time.

    Answers are answered or not found; what the grammar cannot ask is left out.
    """
    answers = []
    for simple in related_questions(question, vocabulary, today):
        answer = ask(simple)
        if answer.status in (Status.ANSWERED, Status.NOT_FOUND):
            answers.append(answer)
    return answers


def related_questions(question: str, vocabulary: Vocabulary, today: date) -> list[str]:
    """Return a simple question for each concept that a question names, three at most."""
    times = [each.text for each in mark(question, vocabulary, today).of("span")]
    time = times[0] if len(times) == 1 else ""
    simple = [" ".join(f"{words} {time}".split()) for words in _named(question)]
    return list(dict.fromkeys(simple))[:_MAX_QUESTIONS]


def _named(question: str) -> Iterator[str]:
    words_of_kind = {row[0]: row[1] for row in read_word_lists("related_questions.tsv")}
    seen: set[tuple[int, int]] = set()
    for match in find_concepts(question):
        if (match.start, match.end) not in seen:
            seen.add((match.start, match.end))
            yield words_of_kind[match.concept.kind].replace(
                "NAME", question[match.start : match.end]
            )


def is_all_named(question: str, vocabulary: Vocabulary, today: date) -> bool:
    """Whether concepts, times and words that carry nothing of their own are all of a question."""
    spans = [(match.start, match.end) for match in find_concepts(question)]
    rest = blanked(question, spans)
    for each in mark(question, vocabulary, today).of("span"):
        rest = re.sub(re.escape(each.text), " ", rest, flags=re.IGNORECASE)
    return not content_words(without_carrying_words(rest))
