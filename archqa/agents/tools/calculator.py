"""Arithmetic for agents: an expression is interpreted, never executed as code.

Supports + - * / // % **, comparisons, lists, and round, abs, min, max, sum, mean, len, sqrt, floor,
ceil.
"""

import ast
import math
import operator
import statistics
from collections.abc import Callable
from typing import Any

from archqa.errors import ArchqaError

Number = int | float
_MAX_LENGTH = 500
_MAX_NUMBER = 1e15
_MAX_EXPONENT = 64

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
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "round": round,
    "abs": abs,
    "min": min,
    "max": max,
    "sum": sum,
    "len": len,
    "mean": statistics.fmean,
    "sqrt": math.sqrt,
    "floor": math.floor,
    "ceil": math.ceil,
}


class CalculationError(ArchqaError):
    """The expression has no value; the message tells its author why."""


def calculate(expression: str) -> Number | bool:
    """The value of an expression such as `(3.5 - 3.2) / 0.1 * 10`, rounded to twelve digits.

    Raises `CalculationError`.
    """
    if len(expression) > _MAX_LENGTH:
        raise CalculationError(f"The expression is longer than {_MAX_LENGTH} characters.")
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except CalculationError:
        raise
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
    if isinstance(value, bool | int):
        return value
    if not isinstance(value, float) or not math.isfinite(value):
        raise CalculationError("The value is not a number.")
    return float(f"{value:.12g}")


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return _bounded(node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element) for element in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _binary(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        return _COMPARISONS[type(node.ops[0])](_value(node.left), _value(node.comparators[0]))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node.func.id, [_value(argument) for argument in node.args])
    raise CalculationError(
        f"Only numbers, + - * / // % **, lists and {', '.join(_FUNCTIONS)} are known here."
    )


def _binary(node: ast.BinOp) -> Any:
    left_value, right_value = _value(node.left), _value(node.right)
    if not isinstance(left_value, int | float) or not isinstance(right_value, int | float):
        raise CalculationError("Only numbers can be reckoned with; use sum or mean for lists.")
    if isinstance(node.op, ast.Pow) and abs(right_value) > _MAX_EXPONENT:
        raise CalculationError("The exponent is too large.")
    return _bounded(_OPERATORS[type(node.op)](left_value, right_value))


def _call(name: str, arguments: list[Any]) -> Any:
    if name not in _FUNCTIONS:
        raise CalculationError(
            f"There is no function {name[:20]!r}. There are: {', '.join(_FUNCTIONS)}."
        )
    return _FUNCTIONS[name](*arguments)


def _bounded(value: Any) -> Any:
    """The value, unless it is larger than any clinical number. Raises `CalculationError`."""
    if isinstance(value, complex) or abs(value) > _MAX_NUMBER:
        raise CalculationError("The number is too large.")
    return value
