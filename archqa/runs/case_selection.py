"""Which cases of a file a run takes: some by name, the first few, or one shard of several."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from archqa.core.question import Item
from archqa.errors import CallerError
from archqa.tasks import CaseFile


class Shard(NamedTuple):
    """One of several equal parts of a case file: `number` of `of`, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `2/4`. Raises `CallerError`."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise CallerError(
                f"--shard {text!r} is not K/N with 1 ≤ K ≤ N.\nFor example: --shard 2/4"
            )
        return cls(int(number), int(of))


class Selection(NamedTuple):
    """Shard first, then names, then the limit."""

    case_ids: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None

    def places(self, ids: Sequence[str]) -> list[int]:
        """Where the selected cases stand among `ids`, in file order. Raises `CallerError` for names not there."""
        unknown = sorted(set(self.case_ids) - set(ids))
        if unknown:
            raise CallerError(
                f"The file has no case {', '.join(unknown)}.\n`archqa cases check FILE` lists its ids."
            )
        places = range(len(ids))
        if self.shard is not None:
            places = places[self.shard.number - 1 :: self.shard.of]
        chosen = [each for each in places if not self.case_ids or ids[each] in self.case_ids]
        if not chosen:
            raise CallerError("No case is left to run.\nCheck --case, --shard and the case file.")
        return chosen[: self.limit]

    def of(self, file: CaseFile) -> Sequence[Item]:
        """The cases selected from a file."""
        return file.select(self.places(file.ids))
