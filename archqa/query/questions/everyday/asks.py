"""What a clause asks of rows: whether there are any, how many, or which field of them."""

from typing import Literal, NamedTuple

from archqa.query.model import Aggregation, ReturnedField, State
from archqa.query.questions.everyday.marks import Account, Clause, Mark
from archqa.query.scope import Position, Unit

PRESENT = frozenset({"is", "are", "am", "do", "does"})
PAST = frozenset({"was", "were", "did", "had"})
PERFECT = frozenset({"has", "have"})
_AUXILIARIES = PRESENT | PAST | PERFECT
_UNITS: tuple[Unit, ...] = ("minute", "hour", "day", "week", "month", "year")


class Ask(NamedTuple):
    """One thing that is asked of the rows: one query each."""

    returns: ReturnedField
    summary: Aggregation = "each"
    position: Position | None = None
    state: State | None = None
    extreme: Literal["minimum", "maximum"] | None = None
    unit: Unit | None = None


class Form(NamedTuple):
    """The form of a clause: whether it expects yes or no, and the tense of its first auxiliary."""

    is_yes_no: bool
    tense: str

    @property
    def is_present(self) -> bool:
        """Whether it asks of the state at the time of the question."""
        return self.tense == "present"

    @property
    def asks_now(self) -> bool:
        """Whether it asks, yes or no, of the state at the time of the question."""
        return self.is_yes_no and self.is_present


def form_of(clause: Clause) -> Form:
    """The form of a clause."""
    return Form(_is_yes_no(clause), _tense(clause))


def _is_yes_no(clause: Clause) -> bool:
    if clause.has("form", "yes_no"):
        return True
    for mark in clause.marks:
        if mark.kind in {"sign", "person_name"} or mark.value == "polite":
            continue
        return mark.kind == "exists" or clause.tokens[mark.start].text in _AUXILIARIES
    return False


def _tense(clause: Clause) -> str:
    polite = {
        place for mark in clause.marks if mark.value in {"polite", "yes_no"}
        for place in range(mark.start, mark.end)
    }  # fmt: skip
    for place in _places(clause):
        word = clause.tokens[place].text
        if place in polite:
            continue
        for tense, words in (("present", PRESENT), ("past", PAST), ("perfect", PERFECT)):
            if word in words:
                return tense
    return ""


def _places(clause: Clause) -> range:
    if not clause.marks:
        return range(0)
    return range(clause.marks[0].start, clause.marks[-1].end)


def position_of(account: Account) -> Position | None:
    """The position in time, if exactly one is named; of several none is used."""
    positions = account.unused("position")
    if len({mark.value for mark in positions}) != 1:
        return None
    account.use_marks(positions)
    value: Position = positions[0].value  # type: ignore[assignment]
    return value


def newest_of(account: Account) -> int | None:
    """How many of the latest are asked for: "the last three visits"; of two numbers none is used."""
    marks = account.unused("newest")
    if len(marks) != 1:
        return None
    account.use_marks(marks)
    return int(marks[0].value)


def may_have_position(account: Account, asks: tuple[Ask, ...]) -> bool:
    """Whether first or last can be meant: not of a number, nor of yes or no within a span."""
    if all(ask.summary in {"count", "count_distinct"} for ask in asks):
        return False
    is_yes_no = all(ask.summary == "exists" for ask in asks)
    return not (is_yes_no and account.unused("span"))


def asks_last_time(account: Account) -> bool:
    """Whether a date is asked for by its position alone: the last time oxycodone was given."""
    return any("time" in mark.text.split() for mark in account.clause.of("position"))


def state_of(account: Account, *, may_end: bool = True) -> State | None:
    """The state that is named: still and currently, or stopped; of a contradiction none is used."""
    current = account.unused("state", "current") + account.unused("still")
    ended = account.unused("state", "ended")
    if ended and (current or not may_end):
        return None
    account.use_marks(current + ended)
    if current:
        return "current"
    return "ended" if ended else None


_PAST = frozenset({"past", "previous", "previously", "prior"})


def use_past(account: Account) -> None:
    """Use "past" and "previous" with rows that happen and do not last: all of them are past.

    One previous visit is not all of them: with a noun in the singular the word is left over.
    """
    nouns = [
        mark for kind in ("row", "class", "concept", "name") for mark in account.clause.of(kind)
    ]
    if any(mark.text.endswith("s") for mark in nouns):
        past = [mark for mark in account.unused("state", "ended") if mark.text in _PAST]
        account.use_marks(past)


def plain_field(field: str) -> str:
    """The field of a query: what something is for is its reason."""
    return "reason" if field == "for_what" else field


def fields_of(account: Account, accepted: frozenset[str]) -> tuple[str, ...]:
    """The fields that are asked for, each once, in the order of the question."""
    marks = [mark for mark in account.clause.of("field") if mark.value in accepted]
    account.use_marks(marks)
    fields = dict.fromkeys(mark.value for mark in marks)
    return tuple(fields)


def unit_of(marks: tuple[Mark, ...]) -> Unit | None:
    """The unit of time in the words of some marks: "how many weeks since"."""
    words = {word.removesuffix("s") for mark in marks for word in mark.text.split()}
    return next((unit for unit in _UNITS if unit in words), None)


def counts(account: Account) -> bool:
    """Whether the number of rows is asked for."""
    return bool(account.use("summary", "count")) or _is_total_of_rows(account)


def _is_total_of_rows(account: Account) -> bool:
    """Whether "total" stands for a number of rows: of a measurement it may belong to the name."""
    clause = account.clause
    is_measured = any(concept.kind == "measurement" for concept in clause.concepts)
    if is_measured or not (clause.has("row") or clause.has("class")):
        return False
    return bool(account.use("summary", "total"))


def use_plain_words(account: Account) -> None:
    """Note the question words that carry nothing beside what they ask of: what, which, any."""
    if not _asks_meaning(account):
        account.use("wh", "what")
    account.use("exists")
    account.use("form")
    account.use("join")
    account.use("noun", "named", "type", "list")
    _use_with_before_fields(account)


def _use_with_before_fields(account: Account) -> None:
    """ "With" that only joins what is shown: "her medicines with doses"."""
    fields = {mark.start for mark in account.clause.of("field")}
    links = account.unused("link", "with")
    account.use_marks(mark for mark in links if mark.end in fields)


_OF_WHOM = frozenset({"her", "his", "my", "their", "the", "patient", "she", "he", "i", "on"})


def _asks_meaning(account: Account) -> bool:
    """Whether "what is asthma" asks what a word means: no row, field, verb or person is named."""
    clause = account.clause
    if not any(mark.text in {"what", "which"} for mark in clause.of("wh", "what")):
        return False
    if clause.has("person"):
        return False
    if any(clause.has(kind) for kind in ("row", "field", "verb", "noun", "class", "span", "state")):
        return False
    if clause.has("concept") and all(each.kind == "measurement" for each in clause.concepts):
        return False
    return not clause.words & _OF_WHOM
