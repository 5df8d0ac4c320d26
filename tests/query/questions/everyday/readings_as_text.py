"""Readings as one line of text, for the tables of the tests."""

from archqa.query.model import Query
from archqa.query.questions.everyday import Declined, NotUnderstood, Reading, Understood


def query_as_text(query: Query) -> str:
    """The kind of rows and every field that is not as always."""
    fields = query.model_dump(exclude_defaults=True)
    when = fields.pop("when", {})
    what = fields.pop("what")
    if "spans" in when:
        when["spans"] = [str(span) for span in query.when.spans]
    if query.when.visit:
        when["visit"] = str(query.when.visit)
    if query.companion:
        fields["companion"] = (
            f"{query.companion.what} {_plain(str(query.companion.when))}".strip()
        )
        if query.companion.when.position:
            fields["companion"] += query.companion.when.position
    if query.value:
        fields["value"] = str(query.value)
    parts = [f"{name}={_plain(value)}" for name, value in {**fields, **when}.items()]
    return " ".join([what, *parts])


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return "|".join(map(str, value))
    return str(value)


def reading_as_text(reading: Reading) -> str:
    """The reading in one line."""
    if isinstance(reading, Understood):
        text = " ; ".join(map(query_as_text, reading.queries))
        return f"{reading.joined}: {text}" if len(reading.queries) > 1 else text
    if isinstance(reading, Declined):
        related = " ; ".join(map(query_as_text, reading.related))
        return f"declined: {related}".strip()
    assert isinstance(reading, NotUnderstood)
    return f"not understood: {' | '.join(reading.words)}"
