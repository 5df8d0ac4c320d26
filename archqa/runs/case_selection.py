"""Selects the cases of a file that a run covers: by id, the first few, or one shard."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from archqa.core.id_lists import list_ids
from archqa.core.near_misses import did_you_mean
from archqa.core.question import Item
from archqa.errors import CallerError
from archqa.tasks import CaseFile

_MAX_DIGITS = 9
"""Of the number of a shard; Python refuses to read one of more than 4,300."""


class Shard(NamedTuple):
    """One of several equal parts of a case file: `number` of `of`, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `2/4`. Raises `CallerError`."""
        number, slash, of = text.partition("/")
        is_fraction = slash and _is_count(number) and _is_count(of)
        if not is_fraction or not 1 <= int(number) <= int(of):
            raise CallerError(
                f"--shard {text!r} is not K/N with 1 ≤ K ≤ N.\nFor example: --shard 2/4"
            )
        return cls(int(number), int(of))


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MAX_DIGITS


class Selection(NamedTuple):
    """Selects by shard first, then by id, then by number."""

    case_ids: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None

    def positions(self, ids: Sequence[str]) -> list[int]:
        """The positions of the selected cases in `ids`. Raises `CallerError` for unknown ids."""
        unknown = sorted(set(self.case_ids) - set(ids))
        if unknown:
            nearest = did_you_mean(unknown[0], ids, count=2)
            advice = "`archqa cases check FILE` lists its ids."
            raise CallerError(
                f"The file has no case {list_ids(unknown)}.\n{f'{nearest} {advice}'.strip()}"
            )
        positions = list(range(len(ids)))
        if self.shard is not None:
            positions = positions[self.shard.number - 1 :: self.shard.of]
        if self.case_ids:
            positions = [position for position in positions if ids[position] in self.case_ids]
        if not positions:
            raise CallerError("No case is left to run.\nCheck --case, --shard and the case file.")
        return positions[: self.limit]

    def of(self, file: CaseFile) -> Sequence[Item]:
        """The selected cases of a file."""
        return file.select(self.positions(file.ids))
