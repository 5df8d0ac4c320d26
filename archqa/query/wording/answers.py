"""An answer as the bare value, as the gold answers of FHIR-AgentBench are printed.

Source: glee4810/FHIR-AgentBench at bbb4290, final_dataset: yes and no, numbers with up to 8
decimals, times `2133-12-31 02:00:00`, several values as a list, "no answer" where there is none.
"""

import json

from archqa.query.execution.findings import QueryResult, Scalar

NO_ANSWER = "no answer"


def format_agent_answer(result: QueryResult) -> str:
    """The value, or the list of values, and nothing else."""
    values = [value for value in result.answer.values if value is not None]
    if not values:
        return NO_ANSWER
    if len(values) == 1:
        return format_value(values[0])
    return json.dumps([_rounded(value) for value in values], ensure_ascii=False)


def format_value(value: Scalar) -> str:
    """One value as text: Yes, 70.3, 2133-12-31 02:00:00."""
    if value is None:
        return NO_ANSWER
    if value is True:
        return "Yes"
    if value is False:
        return "No"
    if isinstance(value, int | float):
        return f"{round(value, 8):.8f}".rstrip("0").rstrip(".")
    return value


def _rounded(value: Scalar) -> Scalar:
    if isinstance(value, float):
        return round(value, 8)
    return value
