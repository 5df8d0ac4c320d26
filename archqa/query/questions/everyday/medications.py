"""Questions about medicines: which, since when, at what dose, what for, still or stopped."""

from collections.abc import Iterator

from archqa.query.kinds import LISTS
from archqa.query.model import Query, RowKind, State
from archqa.query.questions.everyday.clause import ConsumedWords
from archqa.query.questions.everyday.declining import Declined, decline
from archqa.query.questions.everyday.names import (
    Nameable,
    Named,
    named_marks,
    names_of,
    reasons_of,
    use_for_before_names,
)
from archqa.query.questions.everyday.outputs import (
    Draft,
    Output,
    asks_last_time,
    counts,
    fields_of,
    plain_field,
    position_of_outputs,
    state_of,
    stay_of,
    time_since,
    use_plain_words,
)
from archqa.terminology.concept import DRUG_KINDS
from archqa.terminology.words import word_list

DRUGS = Nameable(DRUG_KINDS, frozenset({"medication", "administration"}))
_FIELDS = frozenset(LISTS["fields_of_medicines"])
_OF_ORDERS = frozenset(LISTS["fields_of_orders"])
"""Fields that an order has, and a dose that was given usually has not."""

_OF_GIVING = ("give", "administer", "get")
"""With these verbs a dose is what was given, not its strength: when was the last dose given."""


_TAKING = word_list("taking")


def read_medications(words: ConsumedWords) -> Draft | Declined:
    """The queries of a clause about medicines."""
    compounds = words.clause.of("row", "medication") + named_marks(words.clause, DRUGS)
    reasons = reasons_of(words, compounds=compounds)
    named = names_of(words, DRUGS)
    use_for_before_names(words, DRUGS)
    clause = words.clause
    if clause.has("field", "reason") and clause.has("summary", "change"):
        return decline("why_stopped", *orders(named))
    stay = stay_of(words)
    outputs = tuple(_outputs(words, named))
    kinds = _kinds(words, named, outputs)
    use_plain_words(words)
    words.use("row", "medication")
    words.use(
        "verb",
        "take",
        "taken",
        "use",
        "order",
        "administer",
        "give",
        "get",
        "treat",
        "start",
        "put",
        "dispense",
    )
    words.use("ever")
    words.use("series")
    words.use("history")
    spans = words.use_spans()
    return Draft(kinds, outputs, named, spans, stay, {"reasons": reasons})


def orders(named: Named) -> Iterator[Query]:
    """The orders of each name, with their status."""
    for limit in named.limits[:2]:
        yield Query(
            what="medication",
            names=limit.names,
            concepts=limit.concepts,
            returns="status",
        )


def _outputs(words: ConsumedWords, named: Named) -> Iterator[Output]:
    clause = words.clause
    has_end = clause.has("verb", "stop") or clause.has("state", "ended")
    if (
        has_end
        and clause.is_yes_no
        and named_marks(clause, DRUGS)
        and not clause.has("field")
    ):
        # Was metformin stopped: there are ended orders; and is there a current one.
        words.use("verb", "stop")
        words.use("state", "ended")
        yield Output("name", "exists", state="ended")
        yield Output("name", "exists", state="current")
        return
    if has_end and clause.has("field", "reason"):
        words.use("field", "reason")
        words.use("verb", "stop")
        words.use("state", "ended")
        yield Output("status_reason", state="ended")
        return
    outputs = tuple(_open_outputs(words, named))
    position = position_of_outputs(words, outputs)
    state = state_of(words) or _implied_state(words, named)
    for output in outputs:
        at = position or output.position
        yield output._replace(position=at, state=output.state or state)


def _open_outputs(words: ConsumedWords, named: Named) -> Iterator[Output]:
    """What is asked, before position and state of the whole clause."""
    if counts(words):
        yield _count(words)
        return
    if words.clause.has("verb", "dispense") and words.use("wh", "how_often"):
        yield Output("name", "count")
        return
    fields = _fields(words)
    lasts_until_now = words.clause.tense == "present" or words.clause.tense == "perfect"
    if not fields and named.limits and lasts_until_now and words.use("wh", "how_long"):
        yield Output("elapsed", position="first", state="current")
        return
    if not fields and named.limits and words.use("wh", "how_long"):
        yield Output("time")
        yield Output("end_time")
        return
    if words.clause.is_yes_no:
        yield Output("name", "exists")
    elif not fields:
        yield Output("name")
    for field in fields:
        yield _field(words, field)


def _fields(words: ConsumedWords) -> tuple[str, ...]:
    """The fields that are asked for, in plain words or by how much and how often."""
    fields = dict.fromkeys(map(plain_field, fields_of(words, _FIELDS)))
    if {"time", "dose"} <= fields.keys() and words.clause.has("verb", *_OF_GIVING):
        del fields["dose"]
    if not fields and asks_last_time(words):
        fields["time"] = None
    if not fields and named_marks(words.clause, DRUGS) and _asks_what_it_treats(words):
        fields["reason"] = None
    if words.use("wh", "how_much"):
        fields = {"dose": None, **fields}
    if words.use("wh", "how_often"):
        fields["frequency"] = None
    return tuple(fields)


def _asks_what_it_treats(words: ConsumedWords) -> bool:
    """What is the propranolol treating."""
    clause = words.clause
    return (
        clause.has("verb", "treat")
        and clause.has("wh", "what")
        and not clause.has("link")
    )


def _field(words: ConsumedWords, field: str) -> Output:
    clause = words.clause
    if field == "time" and (clause.has("verb", "stop") or clause.has("state", "ended")):
        words.use("verb", "stop")
        return Output("end_time", state="ended")
    if field == "time" and clause.has("verb", "start"):
        return Output("time", position="first")
    if field == "elapsed":
        return time_since(words)
    if (
        field == "dose"
        and not clause.has("verb", "take", "use")
        and not clause.has("span")
    ):
        has_state = clause.has_any("state", "still")
        return Output("dose", position=None if has_state else "last")
    return Output(field)  # type: ignore[arg-type]


def _count(words: ConsumedWords) -> Output:
    """How many times is a number of orders, how many medicines one of names."""
    if words.clause.words_of("summary", "count") & {
        "times",
        "occasions",
    } or _names_orders(words):
        return Output("name", "count")
    return Output("name", "count_distinct")


def _names_orders(words: ConsumedWords) -> bool:
    """Whether prescriptions are asked for, not medicines."""
    nouns = words.clause.words_of("row", "medication")
    return not nouns.isdisjoint({"prescription", "prescriptions", "rx", "orders"})


def _implied_state(words: ConsumedWords, named: Named) -> State | None:
    """What somebody takes is current; so is a bare list of medicines."""
    clause = words.clause
    if clause.has_any("ever", "span", "position", "history", "during", "class"):
        return None
    if clause.tense == "present":
        is_of_order = clause.has("field") and not clause.words & _TAKING
        return None if named.limits and is_of_order else "current"
    is_bare = not clause.tense and not named.limits and not clause.has("verb")
    return "current" if is_bare and not clause.has("exists") else None


def _kinds(
    words: ConsumedWords, named: Named, outputs: tuple[Output, ...]
) -> tuple[RowKind, ...]:
    """Orders; of what may have been given in hospital, the doses given as well."""
    clause = words.clause
    if clause.has("verb", "dispense"):
        return ("dispense",)
    if clause.has("verb", "administer"):
        return ("administration",)
    is_given = bool(named.limits) or clause.has("verb", "give")
    is_of_order = clause.has("verb", "order") or not is_given or _names_orders(words)
    states = {output.state for output in outputs}
    fields = {output.returns for output in outputs}
    if is_of_order or states != {None} or fields & _OF_ORDERS or len(outputs) > 1:
        return ("medication",)
    if clause.has("summary") or len(named.limits) > 1:
        return ("medication",)
    return ("medication", "administration")
