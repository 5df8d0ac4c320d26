"""Numbers for values, within one batch."""

from typing import Generic, TypeVar

_T = TypeVar("_T")


class Numbers(Generic[_T]):
    """Numbers for values, from 1; number 0 stands for no value."""

    def __init__(self, no_value: _T) -> None:
        self.values: list[_T] = [no_value]
        self._numbers: dict[_T, int] = {}

    def of(self, value: _T) -> int:
        """Return the number of a value."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number
