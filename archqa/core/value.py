"""The base of all values: frozen, and without undeclared fields."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

JsonObject = dict[str, Any]
"""An object as `json.loads` returns it."""


class FrozenModel(BaseModel):
    """A frozen value with a JSON schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Self:
        """A changed copy, validated; cached properties of the original are not copied."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        if update:
            fields.update(update)
        return type(self)(**fields)


class DescribedModel(FrozenModel):
    """A value whose fields are described by the docstrings below them."""

    model_config = ConfigDict(use_attribute_docstrings=True)
