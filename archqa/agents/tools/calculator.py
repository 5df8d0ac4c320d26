"""Arithmetic for agents: an expression is read, never run, so that nothing but numbers can come of it.

Knows + - * / // % **, comparisons, lists, and round, abs, min, max, sum, mean, len, sqrt, floor, ceil.
"""

import ast
import math
import operator
import statistics
from collections.abc import Callable
from typing import Any

from archqa.errors import ArchqaError

Number = int | float
_LONGEST = 500
_LARGEST = 1e15

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
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
    """The expression has no value that could be told; the message says why, for whoever wrote it."""


def calculate(expression: str) -> Number | bool:
    """The value of an expression such as `(3.5 - 3.2) / 0.1 * 10`, rounded to twelve digits. Raises `CalculationError`."""
    if len(expression) > _LONGEST:
        raise CalculationError(f"The expression is longer than {_LONGEST} characters.")
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
        raise CalculationError("The value is no number.")
    return float(f"{value:.12g}")


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return _bounded(node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return -_value(node.operand) if isinstance(node.op, ast.USub) else _value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _binary(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        return _COMPARED[type(node.ops[0])](_value(node.left), _value(node.comparators[0]))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id, [_value(each) for each in node.args])
    raise CalculationError(
        f"Only numbers, + - * / // % **, lists and {', '.join(_FUNCTIONS)} are known here."
    )


def _binary(node: ast.BinOp) -> Any:
    left, right = _value(node.left), _value(node.right)
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise CalculationError("Only numbers can be reckoned with; use sum or mean for lists.")
    if isinstance(node.op, ast.Pow) and abs(right) > 64:
        raise CalculationError("The exponent is too large.")
    return _bounded(_BINARY[type(node.op)](left, right))


def _called(name: str, arguments: list[Any]) -> Any:
    if name not in _FUNCTIONS:
        raise CalculationError(
            f"There is no function {name[:20]!r}. There are: {', '.join(_FUNCTIONS)}."
        )
    return _FUNCTIONS[name](*arguments)


def _bounded(value: Any) -> Any:
    """Numbers beyond a clinic's reach would only cost time and memory."""
    if isinstance(value, complex) or abs(value) > _LARGEST:
        raise CalculationError("The number is too large.")
    return value
