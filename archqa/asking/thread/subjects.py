"""What the last question asked about, and what its answer names."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from archqa.asking.answer import AnswerLine, Evidence
from archqa.asking.thread.turns import Turn
from archqa.query.questions.everyday.clause import Clause, Mark
from archqa.query.questions.everyday.phrases import mark
from archqa.query.questions.everyday.vocabulary import Vocabulary
from archqa.query.questions.lexer import plain
from archqa.terminology.concepts import find_concepts

_ARTICLES = frozenset({"a", "an", "the"})
_PERSONS = frozenset({"he", "she", "i", "they", "we", "patient", "pt"})
_BEFORE_NOUNS = frozenset({"article", "pronoun", "preposition", "demonstrative"})
_PREPOSITIONS = frozenset({"on", "in", "of", "for", "with", "to", "at"})
_VISIT_NOUNS = frozenset(
    {"admission", "admissions", "visit", "visits", "stay", "stays", "hospitalization", "er", "ed"}
)

_VACCINE_NOUNS = frozenset(
    {"shot", "shots", "vaccine", "vaccines", "vaccination", "jab", "booster", "immunization"}
)

_KINDS_OF_CONCEPTS = {"drug_class": "drug"}
_KINDS_OF_ROWS = {
    "observation": "measurement",
    "lab": "measurement",
    "vital": "measurement",
    "diagnosis": "condition",
    "medication": "drug",
    "administration": "drug",
    "procedure": "procedure",
    "imaging": "procedure",
    "device": "procedure",
    "immunization": "vaccine",
    "allergy": "allergy",
    "encounter": "visit",
}
_KINDS_OF_RESOURCES = {
    "AllergyIntolerance": "allergy",
    "Condition": "condition",
    "DiagnosticReport": "procedure",
    "Encounter": "visit",
    "Immunization": "vaccine",
    "MedicationAdministration": "drug",
    "MedicationRequest": "drug",
    "MedicationStatement": "drug",
    "Observation": "measurement",
    "Procedure": "procedure",
}


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
        return tuple(token.text for token in self.clause.tokens if not token.is_sign)

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
    for each in clause.marks:
        kinds = _kinds(each)
        if not kinds or _is_verb(each, clause) or not _is_noun(each, clause):
            continue
        start, end = clause.tokens[each.start].start, clause.tokens[each.end - 1].end
        name = _without_preposition(text[start:end].removesuffix("'s"))
        has_article = _word_before(each, clause) in _ARTICLES
        if "visit" in kinds:
            name, has_article = name.removeprefix("the "), True
        yield Subject(
            name=name,
            kinds=frozenset({"allergy"}) if is_of_allergy else kinds,
            start=end - len(name) if text[start:end].endswith(name) else start,
            end=end,
            has_article=has_article,
            which=_which(each, clause),
            is_class=any(concept.kind == "drug_class" for concept in each.concepts)
            and "measurement" not in kinds,
        )


def _without_preposition(name: str) -> str:
    """The name without what its phrase begins with: "on oxygen"."""
    first, _, rest = name.partition(" ")
    return rest if rest and first.lower() in _PREPOSITIONS else name


def _which(each: Mark, clause: Clause) -> str:
    """Which of its values a question asks for: the words right before its name."""
    before = next((mark for mark in clause.marks if mark.end == each.start), None)
    is_choice = before is not None and before.kind in {"position", "extreme"}
    return before.text.removeprefix("the ") if before is not None and is_choice else "last"


def _kinds(each: Mark) -> frozenset[str]:
    if each.kind == "concept":
        kinds = (concept.kind for concept in each.concepts)
        return frozenset(_KINDS_OF_CONCEPTS.get(kind, kind) for kind in kinds)
    if each.kind == "name":
        kinds_of_rows = {str(name.kind) for name in each.names} or {each.value}
        return frozenset(_KINDS_OF_ROWS.get(kind, "other") for kind in kinds_of_rows)
    if each.kind == "germ":
        return frozenset({"other"})
    if each.kind == "class" and each.text.split()[-1:] and each.text.split()[-1] in _VISIT_NOUNS:
        return frozenset({"visit"})
    return frozenset({"other"}) if each.kind == "unknown" else frozenset()


def _is_verb(each: Mark, clause: Clause) -> bool:
    """Whether a name says what somebody does or is: "does he smoke", "was she intubated"."""
    words = set(each.text.split())
    return bool(words & _PERSONS) or _word_before(each, clause) in _PERSONS


def _is_noun(each: Mark, clause: Clause) -> bool:
    """Whether an unknown word is a noun: after an article, a possessive or a preposition."""
    if each.kind != "unknown":
        return True
    before = next((mark for mark in clause.marks if mark.end == each.start), None)
    if before is None:
        return each.end - each.start == len([t for t in clause.tokens if not t.is_sign])
    if before.kind == "filler":
        return before.value in _BEFORE_NOUNS and before.text not in _PERSONS
    return before.kind in {"exists", "link", "position", "join"}


def _word_before(each: Mark, clause: Clause) -> str:
    return clause.tokens[each.start - 1].text if each.start else ""


def line_subject(line: AnswerLine, evidence: Sequence[Evidence]) -> Subject:
    """Return what a line of an answer names, by its earliest piece of evidence."""
    cited = [piece for piece in evidence if piece.id in line.citations]
    if not cited or cited[0].kind == "sentence":
        return Subject(line.text, frozenset({"other"}))
    kind = _KINDS_OF_RESOURCES.get(cited[0].source, "other")
    name = _display(line.text, cited[0].text)
    if kind == "drug":
        name = next(iter(names_of_kind(name, "drug")), name)
    elif name[1:2].islower():
        name = name[:1].lower() + name[1:]
    return Subject(name, frozenset({kind}))


def _display(line: str, evidence: str) -> str:
    """Return the name that begins a line: as much as it shares with the text of its evidence."""
    for start in (0, line.find(": ") + 2):
        name = _shared_start(line[start:], evidence).strip().rstrip(",")
        if name:
            return name
    return line.split(",")[0].split(" on ")[0].split(":")[-1].strip()


def _shared_start(text: str, other: str) -> str:
    pairs = zip(text, other, strict=False)
    length = next((place for place, (one, two) in enumerate(pairs) if one != two), None)
    return text[:length] if length is not None else min(text, other, key=len)


def names_of_kind(text: str, kind: str) -> tuple[str, ...]:
    """Return the drugs, tests or problems that a text names, each once."""
    names: dict[str, str] = {}
    for match in find_concepts(text):
        own_kind = _KINDS_OF_CONCEPTS.get(match.concept.kind, match.concept.kind)
        is_class = match.concept.kind == "drug_class"
        if own_kind == kind and not is_class:
            names.setdefault(match.concept.name, text[match.start : match.end].lower())
    return tuple(names.values())


def subjects_of_answer(asked: AskedBefore, kinds: Iterable[str]) -> tuple[Subject, ...]:
    """Return the things of some kinds that the lines of the answer name, each once."""
    found: dict[str, Subject] = {}
    wanted = frozenset(kinds)
    for line, item in zip(asked.turn.lines, asked.items, strict=True):
        if item.kinds & wanted:
            found.setdefault(item.name.lower(), item)
        if item.kinds == {"other"}:
            for kind in wanted:
                for name in names_of_kind(line.text, kind):
                    found.setdefault(name, Subject(name, frozenset({kind})))
    return tuple(found.values())
