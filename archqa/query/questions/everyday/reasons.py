"""What something was given or done for: "for her migraines", "with COVID", "asthma inhaler"."""

from archqa.query.questions.everyday.marks import Account, Clause, Mark
from archqa.query.questions.everyday.naming import Nameable, named_marks

_LINKS = frozenset({"for", "because", "with"})
CONDITIONS = Nameable(frozenset({"condition"}), frozenset({"diagnosis"}))


def reasons_of(account: Account, *, compounds: tuple[Mark, ...] = ()) -> tuple[str, ...]:
    """The conditions that limit rows by their reason.

    They follow "for", "because of" or "with"; or they stand right before one of the `compounds`.
    """
    reasons: list[str] = []
    for mark in named_marks(account.clause, CONDITIONS):
        link = _link_before(account.clause, mark)
        if link is None and not any(mark.end == compound.start for compound in compounds):
            continue
        account.use_marks([mark] if link is None else [mark, link])
        limit = CONDITIONS.limit(mark)
        if limit is not None:
            reasons += [*limit.concepts, *limit.names]
    return tuple(dict.fromkeys(reasons))


def _link_before(clause: Clause, mark: Mark) -> Mark | None:
    """The link right before a mark; only words that carry nothing, or "or", stand between."""
    for each in reversed([each for each in clause.marks if each.end <= mark.start]):
        if each.kind == "link" and each.value in _LINKS:
            return each
        is_condition = CONDITIONS.limit(each) is not None
        if each.kind not in {"filler", "join", "person_name"} and not is_condition:
            return None
    return None
