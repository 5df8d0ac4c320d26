"""What every value of the field has in common: it is frozen, and it has no fields nobody declared."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value with a JSON schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")
