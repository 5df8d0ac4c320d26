"""Which cases of a file a run takes: some by name, the first few, or one shard of several."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from archqa.core.case import Case
from archqa.errors import CallerError


class Shard(NamedTuple):
    """One of several equal parts of a case file: `number` of `of`, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `2/4`. Raises `CallerError`."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise CallerError(f"--shard {text!r} is not K/N with 1 ≤ K ≤ N.\nFor example: --shard 2/4")
        return cls(int(number), int(of))


class Selection(NamedTuple):
    """Shard first, then names, then the limit."""

    case_ids: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None

    def of(self, cases: Sequence[Case]) -> tuple[Case, ...]:
        """The cases selected, in file order. Raises `CallerError` for names the file does not have."""
        unknown = sorted(set(self.case_ids) - {case.id for case in cases})
        if unknown:
            raise CallerError(f"The file has no case {', '.join(unknown)}.\n`archqa cases check FILE` lists its ids.")
        if self.shard is not None:
            cases = cases[self.shard.number - 1 :: self.shard.of]
        if self.case_ids:
            cases = [case for case in cases if case.id in self.case_ids]
        if not cases:
            raise CallerError("No case is left to run.\nCheck --case, --shard and the case file.")
        return tuple(cases[: self.limit] if self.limit is not None else cases)
