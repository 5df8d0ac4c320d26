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
from fractions import Fraction
from typing import Any

from archqa.agents.tools.date_arithmetic import DATE_FUNCTIONS, DateError
from archqa.errors import ArchqaError

Number = int | float
_MAX_LENGTH = 500
_MAX_NUMBER = 10**15
_MAX_EXPONENT = 64
_MAX_DIGITS = 15
_MAX_DENOMINATOR = 10**300
"""Fractions beyond it are continued as floating-point numbers."""

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


def _round(value: Any, digits: Any = 0) -> Fraction:
    """A number rounded to so many decimals, halves away from zero."""
    if digits != int(digits) or abs(digits) > _MAX_DIGITS:
        raise CalculationError(f"round takes a number of at most {_MAX_DIGITS} decimals.")
    scale = Fraction(10) ** int(digits)
    exact = value if isinstance(value, Fraction) else Fraction(repr(value))
    size = math.floor(abs(exact) * scale + Fraction(1, 2)) / scale
    return size if exact >= 0 else -size


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
    **DATE_FUNCTIONS,
}


def calculate(expression: str, dates: Mapping[str, str] | None = None) -> Number | bool:
    """The value of an expression such as `(3.5 - 3.2) / 0.1 * 10`, in full precision.

    `dates` are names for dates, such as `now` in `age('1950-11-14', now)`. Raises
    `CalculationError`.
    """
    if len(expression) > _MAX_LENGTH:
        raise CalculationError(f"The expression is longer than {_MAX_LENGTH} characters.")
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body, dates or {})
        return _plain_number(value)
    except DateError as error:
        raise CalculationError(str(error)) from None
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
        raise CalculationError(f"The expression has no value ({type(error).__name__}).") from None


def _plain_number(value: Any) -> Number | bool:
    """A value as JSON has it: whole numbers without decimals, others with all that a float holds."""
    if isinstance(value, bool | int):
        return value
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise CalculationError("The value is not a number.")
    return value


def _value(node: ast.expr, dates: Mapping[str, str]) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in {int, float, str}:
        return _constant(node.value)
    if isinstance(node, ast.Name) and node.id in dates:
        return dates[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element, dates) for element in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _signed(node, dates)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _binary(node, dates)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        return _compared(node, dates)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node.func.id, [_value(argument, dates) for argument in node.args])
    raise CalculationError(
        f"Only numbers, + - * / // % **, lists, dates in quotation marks and "
        f"{', '.join(_FUNCTIONS)} are known here."
    )


def _constant(value: Any) -> Any:
    """A date as text, a number exactly as it is written."""
    return value if isinstance(value, str) else _bounded(Fraction(repr(value)))


def _signed(node: ast.UnaryOp, dates: Mapping[str, str]) -> Any:
    value = _value(node.operand, dates)
    return -value if isinstance(node.op, ast.USub) else value


def _compared(node: ast.Compare, dates: Mapping[str, str]) -> bool:
    left_value, right_value = _value(node.left, dates), _value(node.comparators[0], dates)
    if isinstance(left_value, str) or isinstance(right_value, str):
        raise CalculationError("Dates are compared by their difference, as in days(a, b) > 365.")
    return _COMPARISONS[type(node.ops[0])](left_value, right_value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Fraction)


def _binary(node: ast.BinOp, dates: Mapping[str, str]) -> Any:
    left_value, right_value = _value(node.left, dates), _value(node.right, dates)
    if not _is_number(left_value) or not _is_number(right_value):
        raise CalculationError(
            "Only numbers can be reckoned with; use sum or mean for lists, and age, days, hours or "
            "minutes for dates."
        )
    if isinstance(node.op, ast.Pow) and abs(right_value) > _MAX_EXPONENT:
        raise CalculationError("The exponent is too large.")
    return _bounded(_OPERATORS[type(node.op)](left_value, right_value))


def _call(name: str, arguments: list[Any]) -> Any:
    if name not in _FUNCTIONS:
        raise CalculationError(
            f"There is no function {name[:20]!r}. There are: {', '.join(_FUNCTIONS)}."
        )
    return _bounded(_FUNCTIONS[name](*arguments))


def _bounded(value: Any) -> Any:
    """The value, unless it is larger than any clinical number. Raises `CalculationError`."""
    if isinstance(value, str | bool):
        return value
    if isinstance(value, complex) or abs(value) > _MAX_NUMBER:
        raise CalculationError("The number is too large.")
    if isinstance(value, Fraction) and value.denominator > _MAX_DENOMINATOR:
        return float(value)
    return value
