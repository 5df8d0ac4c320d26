"""The base type of what a task makes of one case, where that is not the cited answer of a note."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import ConfigDict

from archqa.core.value import FrozenModel


class TaskResult(FrozenModel):
    """A task's result for one case; each task has its own subclass.

    It is written to `cases.jsonl` with the fields that were set, in the order of their definition.
    Unknown keys of older or newer run folders are ignored when a line is read.
    """

    model_config = ConfigDict(extra="ignore")

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Parse the `result` object of a line. Raises `ValidationError` if it is malformed."""
        return cls.model_validate(content)

    @property
    def answer_text(self) -> str | None:
        """The answer in words, for tables; None where the result is no text."""
        return None

    @property
    def cited_resources(self) -> tuple[str, ...]:
        """The resources that the result rests on, as `Type/id`; empty where there are none."""
        return ()

    @property
    def evidence_texts(self) -> Mapping[str, str]:
        """What the result keeps of the resources it rests on, in words, by `Type/id`."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """The `result` object of a line of `cases.jsonl`."""
        return self.model_dump(mode="json", exclude_unset=True)


def reference_names(ids: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """`Type/id` of every resource of a mapping from types to ids."""
    names = []
    for resource_type, resource_ids in ids.items():
        names += [f"{resource_type}/{resource_id}" for resource_id in resource_ids]
    return tuple(names)
