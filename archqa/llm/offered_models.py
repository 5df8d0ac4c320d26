"""The models that a server offers (`GET /models`), with what some servers say of them besides.

OpenAI and Ollama give an id and an owner. The context length stands under other names with each:
`max_model_len` (vLLM), `meta.n_ctx` and `meta.n_ctx_train` (llama.cpp), `context_length`
(OpenRouter, Together), `context_window` (Groq). What is absent or of another type is unknown.
"""

from typing import Any, NamedTuple

from pydantic import BaseModel

_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window")


class OfferedModel(NamedTuple):
    """A model in a server's list; an empty text and None stand for what the server does not say.

    `context` is what a prompt and its reply may have together, `trained_context` what the model was
    trained on: a server may be started with less.
    """

    id: str
    owned_by: str = ""
    context: int | None = None
    trained_context: int | None = None


class ModelEntry(BaseModel):
    """One row of the reply to `GET /models`. Only the id is needed."""

    id: str
    owned_by: Any = None
    max_model_len: Any = None
    context_length: Any = None
    context_window: Any = None
    meta: Any = None

    @property
    def offered(self) -> OfferedModel:
        """The row as a model."""
        meta = self.meta if isinstance(self.meta, dict) else {}
        candidates = [getattr(self, field) for field in _CONTEXT_FIELDS]
        candidates.append(meta.get("n_ctx"))
        return OfferedModel(
            id=self.id,
            owned_by=self.owned_by if isinstance(self.owned_by, str) else "",
            context=_first_length(*candidates),
            trained_context=_first_length(meta.get("n_ctx_train")),
        )


class ModelList(BaseModel):
    """The reply to `GET /models`."""

    data: list[ModelEntry]


def find_offered(name: str, models: list[OfferedModel]) -> OfferedModel | None:
    """Return the model of this name; Ollama's list has the tag `:latest`, which requests may omit."""
    for model in models:
        if model.id in (name, f"{name}:latest"):
            return model
    return None


def _first_length(*values: Any) -> int | None:
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
