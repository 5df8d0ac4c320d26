"""What the last question asked about, what its answer names, and which of it a follow-up means."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from archqa.asking.answer import AnswerLine, Evidence
from archqa.asking.thread import Turn
from archqa.asking.thread.follow_up_words import subject_kinds, templates
from archqa.query.questions.everyday.clause import Clause, Mark
from archqa.query.questions.everyday.phrases import mark
from archqa.query.questions.everyday.vocabulary import Vocabulary
from archqa.query.questions.lexer import SEPARATORS, plain
from archqa.terminology.concepts import find_concepts
from archqa.terminology.words import word_list

_ARTICLES = frozenset({"a", "an", "the"})
_PERSONS = word_list("person")
_BEFORE_NOUNS = frozenset({"article", "pronoun", "preposition", "demonstrative"})
_PREPOSITIONS = word_list("preposition")
_VISIT_NOUNS = word_list("visit noun")

_VACCINE_NOUNS = word_list("vaccine noun")

_ANY = "-"
"""Any kind, in the table of templates."""

_KINDS_OF_CONCEPTS = {"drug_class": "drug"}


class Subject(NamedTuple):
    """A drug, test, problem or other thing, and where the question names it (-1: its answer does).

    `kinds` are drug, measurement, condition, procedure, vaccine, allergy, visit or other. `which`
    of its values is asked for, such as "last" or "highest".
    """

    name: str
    kinds: frozenset[str]
    start: int = -1
    end: int = -1
    has_article: bool = False
    which: str = "last"
    is_class: bool = False

    @property
    def noun(self) -> str:
        """The name as a noun: a vaccine that is called by its disease gets "shot"."""
        is_called_so = _VACCINE_NOUNS & set(self.name.lower().split())
        is_vaccine = self.kinds == {"vaccine"}
        return f"{self.name} shot" if is_vaccine and not is_called_so else self.name

    @property
    def phrase(self) -> str:
        """The name with the article that it needs in a question."""
        is_counted = self.kinds & {"procedure", "visit", "vaccine", "other"}
        needs = is_counted and "measurement" not in self.kinds
        return f"the {self.noun}" if needs or self.has_article else self.noun


class AskedBefore(NamedTuple):
    """The last question that stands by itself, its marks, its subjects, and its turn."""

    text: str
    clause: Clause
    subjects: tuple[Subject, ...]
    turn: Turn

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the question."""
        return tuple(
            token.text for token in self.clause.tokens if token.text not in SEPARATORS
        )

    @property
    def items(self) -> tuple[Subject, ...]:
        """What the lines of the answer name, one a line."""
        return tuple(line_subject(line, self.turn.evidence) for line in self.turn.lines)


def read_asked(turn: Turn, vocabulary: Vocabulary, today: date) -> AskedBefore:
    """Return what a turn asked about."""
    text = plain(turn.understood.strip())
    clause = mark(text, vocabulary, today)
    return AskedBefore(text, clause, tuple(subjects_of(text, clause)), turn)


def subjects_of(text: str, clause: Clause) -> Iterator[Subject]:
    """Yield the things that a question names; verbs such as "smoke" are none."""
    is_of_allergy = clause.has("row", "allergy")
    before_start = {part.end: part for part in reversed(clause.marks)}
    for part in clause.marks:
        kinds = _kinds(part)
        before = before_start.get(part.start)
        word_before = clause.tokens[part.start - 1].text if part.start else ""
        # "Does he smoke" and "was she intubated" say what somebody does or is.
        is_verb = word_before in _PERSONS or not _PERSONS.isdisjoint(part.text.split())
        if not kinds or is_verb or not _is_noun(part, before, clause):
            continue
        start, end = clause.tokens[part.start].start, clause.tokens[part.end - 1].end
        name = text[start:end].removesuffix("'s")
        first_word, _, following = name.partition(" ")
        if following and first_word.lower() in _PREPOSITIONS:  # "On oxygen".
            name = following
        has_article = word_before in _ARTICLES
        if "visit" in kinds:
            name, has_article = name.removeprefix("the "), True
        which = "last"
        if before is not None and before.kind in {"position", "extreme"}:
            which = before.text.removeprefix("the ")
        has_class = any(concept.kind == "drug_class" for concept in part.concepts)
        yield Subject(
            name=name,
            kinds=frozenset({"allergy"}) if is_of_allergy else kinds,
            start=end - len(name) if text[start:end].endswith(name) else start,
            end=end,
            has_article=has_article,
            which=which,
            is_class=has_class and "measurement" not in kinds,
        )


def _kinds(part: Mark) -> frozenset[str]:
    kinds: set[str] = set()
    if part.kind == "concept":
        for concept in part.concepts:
            kinds.add(_KINDS_OF_CONCEPTS.get(concept.kind, concept.kind))
    elif part.kind == "name":
        for name in part.names:
            kinds.add(subject_kinds("row").get(str(name.kind), "other"))
        if not part.names:
            kinds.add(subject_kinds("row").get(part.value, "other"))
    elif part.kind in {"germ", "unknown"}:
        kinds.add("other")
    elif part.kind == "class" and not _VISIT_NOUNS.isdisjoint(part.text.split()[-1:]):
        kinds.add("visit")
    return frozenset(kinds)


def _is_noun(part: Mark, before: Mark | None, clause: Clause) -> bool:
    """Whether an unknown word is a noun: after an article, a possessive or a preposition."""
    if part.kind != "unknown":
        return True
    if before is None:
        words = [token for token in clause.tokens if token.text not in SEPARATORS]
        return part.end - part.start == len(words)
    if before.kind == "filler":
        return before.value in _BEFORE_NOUNS and before.text not in _PERSONS
    return before.kind in {"exists", "link", "position", "join"}


def line_subject(line: AnswerLine, evidence: Sequence[Evidence]) -> Subject:
    """Return what a line of an answer names, by its earliest piece of evidence."""
    first = next((piece for piece in evidence if piece.id in line.citations), None)
    if first is None or first.kind == "sentence":
        return Subject(line.text, frozenset({"other"}))
    kind = subject_kinds("resource").get(first.source, "other")
    name = _display(line.text, first.text)
    if kind == "drug":
        name = next(iter(names_of_kind(name, "drug")), name)
    elif name[1:2].islower():
        name = name[:1].lower() + name[1:]
    return Subject(name, frozenset({kind}))


def _display(line: str, evidence: str) -> str:
    """Return the name that begins a line: as much as it shares with the text of its evidence."""
    for start in (0, line.find(": ") + 2):
        text = line[start:]
        length = 0
        while (
            length < min(len(text), len(evidence)) and text[length] == evidence[length]
        ):
            length += 1
        name = text[:length].strip().rstrip(",")
        if name:
            return name
    return line.split(",")[0].split(" on ")[0].split(":")[-1].strip()


def names_of_kind(text: str, kind: str) -> tuple[str, ...]:
    """Return the drugs, tests or problems that a text names, each once."""
    names: dict[str, str] = {}
    for match in find_concepts(text):
        if match.concept.kind == kind:
            names.setdefault(match.concept.name, text[match.start : match.end].lower())
    return tuple(names.values())


def subjects_of_answer(asked: AskedBefore, kinds: Iterable[str]) -> tuple[Subject, ...]:
    """Return the things of some kinds that the lines of the answer name, each once."""
    subjects: dict[str, Subject] = {}
    wanted = frozenset(kinds)
    for line, item in zip(asked.turn.lines, asked.items, strict=True):
        if item.kinds & wanted:
            subjects.setdefault(item.name.lower(), item)
        if item.kinds == {"other"}:
            for kind in wanted:
                for name in names_of_kind(line.text, kind):
                    subjects.setdefault(name, Subject(name, frozenset({kind})))
    return tuple(subjects.values())


class SeveralSubjects(NamedTuple):
    """The names of the things that may be meant."""

    names: tuple[str, ...]


class ChosenSubject(NamedTuple):
    """The subject and the standalone question about it; None if there is no such question."""

    subject: Subject
    question: str | None


Chosen = ChosenSubject | SeveralSubjects | None


def choose_template_subject(
    asked: AskedBefore, attribute: str, item: int, *, relative: str = ""
) -> Chosen:
    """Return the subject of a part that is asked for, with the question of its template."""
    kinds = frozenset(kind for name, kind in templates() if name == attribute)
    chosen = choose_subject(asked, kinds - {_ANY}, item, is_strict=_ANY not in kinds)
    if chosen is None or isinstance(chosen, SeveralSubjects):
        return chosen
    if relative and chosen.kinds != {
        "condition"
    }:  # A relative's values are in no record.
        return None
    for kind in (*sorted(chosen.kinds), _ANY):
        template = templates().get((attribute, kind))
        if template:
            question = template.format(
                subject=chosen.phrase,
                name=chosen.noun,
                which=chosen.which,
                relative=relative,
            )
            return ChosenSubject(chosen, question)
    return ChosenSubject(chosen, None)


def choose_subject(
    asked: AskedBefore, kinds: frozenset[str], item: int = 0, *, is_strict: bool = False
) -> Subject | SeveralSubjects | None:
    """Return the one thing that is meant: a line by its number, else of the question, else of the
    answer.

    Things of `kinds` come first; if `is_strict`, no others are meant. None if there is none.
    """
    if item:
        items = asked.items
        return items[item - 1] if item <= len(items) else None
    subjects = asked.subjects
    if kinds:
        subjects = tuple(subject for subject in subjects if subject.kinds & kinds)
    if any(subject.is_class for subject in subjects):
        # Of a class of drugs, the drug that the answer names.
        drugs = subjects_of_answer(asked, {"drug"})
        if len(drugs) == 1 and subjects[0].name.lower() not in drugs[0].name.lower():
            return drugs[0]
        return _one_or_several(drugs) if len(drugs) > 1 else subjects[0]
    if subjects:
        return _the_one(asked, subjects)
    all_kinds = frozenset(kind for _, kind in templates() if kind != _ANY)
    named = subjects_of_answer(asked, kinds or all_kinds)
    if named:
        return _one_or_several(named)
    return None if is_strict else _the_one(asked, asked.subjects)


def _the_one(
    asked: AskedBefore, subjects: tuple[Subject, ...]
) -> Subject | SeveralSubjects | None:
    """Return the one subject; of several, the one that the answer tells of."""
    if not subjects:
        return None
    answer = " ".join(line.text for line in asked.turn.lines).lower()
    in_answer = [subject for subject in subjects if subject.name.lower() in answer]
    return in_answer[0] if len(in_answer) == 1 else _one_or_several(subjects)


def _one_or_several(subjects: tuple[Subject, ...]) -> Subject | SeveralSubjects:
    if len(subjects) == 1:
        return subjects[0]
    return SeveralSubjects(tuple(subject.name for subject in subjects))
