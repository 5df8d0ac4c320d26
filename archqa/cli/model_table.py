"""The models that a server offers, as a table and as JSON."""

from collections.abc import Iterator
from typing import Any

from archqa.llm.model import OfferedModel
from archqa.safety.terminal import printable

_UNKNOWN = "not told"


def model_lines(models: list[OfferedModel]) -> Iterator[str]:
    """Yield a heading and a line for each model; the id comes last, since it may be a long path."""
    if not models:
        yield "The server offers no model."
        return
    rows = [("context", "owner", "model")]
    rows += [(context_text(model), model.owned_by or _UNKNOWN, model.id) for model in models]
    shown = [tuple(printable(cell) for cell in row) for row in rows]
    context_width = max(len(row[0]) for row in shown)
    owner_width = max(len(row[1]) for row in shown)
    for context, owner, name in shown:
        yield f"{context:{context_width}}  {owner:{owner_width}}  {name}"


def context_text(model: OfferedModel) -> str:
    """Return the tokens that a request may have, as far as the server tells."""
    if model.context is not None:
        return f"{model.context:,} tokens"
    if model.trained_context is not None:
        return f"at most {model.trained_context:,} tokens"
    return _UNKNOWN


def model_json(model: OfferedModel) -> dict[str, Any]:
    """Return a model as JSON values; what the server does not say is null."""
    return {
        "id": model.id,
        "owned_by": model.owned_by or None,
        "context": model.context,
        "trained_context": model.trained_context,
    }
