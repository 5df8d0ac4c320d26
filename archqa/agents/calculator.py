"""Arithmetic for agents: an expression is interpreted, never executed as code.

Supports + - * / // % **, comparisons, lists, round, abs, min, max, sum, mean, len, sqrt, floor and
ceil, and dates as texts in quotation marks: age, days, hours and minutes. Decimal numbers are
exact fractions, so that nothing is rounded before the end: 3.5 - 3.2 is 0.3.
"""

import ast
import math
import operator
import statistics
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import Any

from archqa.errors import ArchqaError

Number = int | float

_MAX_LENGTH = 500
_MAX_NUMBER = 10**15
_MAX_EXPONENT = 64
_MAX_DIGITS = 15
_MAX_DENOMINATOR = 10**300
"""Fractions beyond it are continued as floating-point numbers."""

_DATE_LENGTH = len("2023-11-13")

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class CalculationError(ArchqaError):
    """The expression has no value; the message tells its author why."""


def calculate(expression: str, dates: Mapping[str, str] | None = None) -> Number | bool:
    """The value of an expression such as `(3.5 - 3.2) / 0.1 * 10`, in full precision.

    `dates` are names for dates, such as `now` in `age('1950-11-14', now)`. Raises
    `CalculationError`.
    """
    if len(expression) > _MAX_LENGTH:
        raise CalculationError(
            f"The expression is longer than {_MAX_LENGTH} characters."
        )
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body, dates or {})
        if isinstance(value, Fraction):
            value = value.numerator if value.denominator == 1 else float(value)
    except SyntaxError:
        raise CalculationError(
            "This is no arithmetic expression, such as (3.5 - 3.2) / 0.1 * 10."
        ) from None
    except (
        ArithmeticError,
        ValueError,
        TypeError,
        RecursionError,
        MemoryError,
        statistics.StatisticsError,
    ) as error:
        raise CalculationError(
            f"The expression has no value ({type(error).__name__})."
        ) from None
    if isinstance(value, bool | int) or (
        isinstance(value, float) and math.isfinite(value)
    ):
        return value
    raise CalculationError("The value is not a number.")


def _value(node: ast.expr, dates: Mapping[str, str]) -> Any:
    """The value of a part of an expression: a number, a list, or a date as text."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Constant(value=number) if type(number) in {int, float}:
            return _bounded(Fraction(repr(number)))
        case ast.Name(id=name) if name in dates:
            return dates[name]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element, dates) for element in elements]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, dates)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, dates)
        case ast.BinOp(op=operation) if type(operation) in _OPERATORS:
            return _binary(
                operation, _value(node.left, dates), _value(node.right, dates)
            )
        case ast.Compare(ops=[comparison]) if type(comparison) in _COMPARISONS:
            left, right = _value(node.left, dates), _value(node.comparators[0], dates)
            if isinstance(left, str) or isinstance(right, str):
                raise CalculationError(
                    "Dates are compared by their difference, as in days(a, b) > 365."
                )
            return _COMPARISONS[type(comparison)](left, right)
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            arguments = [_value(argument, dates) for argument in node.args]
            if name not in _FUNCTIONS:
                raise CalculationError(
                    f"There is no function {name[:20]!r}. There are: {', '.join(_FUNCTIONS)}."
                )
            return _bounded(_FUNCTIONS[name](*arguments))
    raise CalculationError(
        f"Only numbers, + - * / // % **, lists, dates in quotation marks and "
        f"{', '.join(_FUNCTIONS)} are known here."
    )


def _binary(operation: ast.operator, left: Any, right: Any) -> Any:
    for operand in (left, right):
        if not isinstance(operand, int | float | Fraction):
            raise CalculationError(
                "Only numbers can be reckoned with; use sum or mean for lists, and age, days, "
                "hours or minutes for dates."
            )
    if isinstance(operation, ast.Pow) and abs(right) > _MAX_EXPONENT:
        raise CalculationError("The exponent is too large.")
    return _bounded(_OPERATORS[type(operation)](left, right))


def _bounded(value: Any) -> Any:
    """The value, unless it is larger than any clinical number. Raises `CalculationError`."""
    if isinstance(value, str | bool):
        return value
    if isinstance(value, complex) or abs(value) > _MAX_NUMBER:
        raise CalculationError("The number is too large.")
    if isinstance(value, Fraction) and value.denominator > _MAX_DENOMINATOR:
        return float(value)
    return value


def _round(value: Any, digits: Any = 0) -> Fraction:
    """A number rounded to so many decimals, halves away from zero."""
    if digits != int(digits) or abs(digits) > _MAX_DIGITS:
        raise CalculationError(
            f"round takes a number of at most {_MAX_DIGITS} decimals."
        )
    scale = Fraction(10) ** int(digits)
    exact = value if isinstance(value, Fraction) else Fraction(repr(value))
    size = math.floor(abs(exact) * scale + Fraction(1, 2)) / scale
    return size if exact >= 0 else -size


def _age(born: str, day: str) -> int:
    """The age in whole years on a day: a birthday that is still ahead does not count."""
    birth, at = _moment(born), _moment(day)
    birthday_is_ahead = (at.month, at.day) < (birth.month, birth.day)
    years = at.year - birth.year - birthday_is_ahead
    if years < 0:
        raise CalculationError(f"The date of birth {born} lies after {day}.")
    return years


def _elapsed(unit: timedelta, start: str, end: str) -> Fraction:
    """The units from the first time to the second, negative if that is earlier.

    A bare date is midnight in the zone of the other time.
    """
    first, second = _moment(start), _moment(end)
    if len(start.strip()) == _DATE_LENGTH:
        first = first.replace(tzinfo=second.tzinfo)
    elif len(end.strip()) == _DATE_LENGTH:
        second = second.replace(tzinfo=first.tzinfo)
    if (first.tzinfo is None) != (second.tzinfo is None):
        raise CalculationError(
            "One of the times has a zone and the other has none; give both or neither."
        )
    microsecond = timedelta(microseconds=1)
    return Fraction((second - first) // microsecond, unit // microsecond)


def _moment(text: str) -> datetime:
    """A date or dateTime as FHIR has it: `1950-11-14`, `2023-11-13T10:15:00+00:00`."""
    try:
        return datetime.fromisoformat(text.strip())
    except (ValueError, AttributeError):
        raise CalculationError(
            f"{str(text)[:40]!r} is no date such as '1950-11-14' or '2023-11-13T10:15:00+00:00'."
        ) from None


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "round": _round,
    "abs": abs,
    "min": min,
    "max": max,
    "sum": sum,
    "len": len,
    "mean": statistics.mean,
    "sqrt": math.sqrt,
    "floor": math.floor,
    "ceil": math.ceil,
    "age": _age,
    "days": partial(_elapsed, timedelta(days=1)),
    "hours": partial(_elapsed, timedelta(hours=1)),
    "minutes": partial(_elapsed, timedelta(minutes=1)),
}
"""age(born, on) in whole years; days, hours and minutes (from, to) with fractions."""
