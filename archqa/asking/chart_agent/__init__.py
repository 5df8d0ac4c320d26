"""Answers questions about a patient's chart by a model that looks up notes and record itself."""

from archqa.asking.chart_agent.marked_chart import ChartToAsk
from archqa.asking.chart_agent.model_answer import (
    CHART_AGENT,
    ChartBudget,
    answer_chart_by_model,
)

__all__ = ["CHART_AGENT", "ChartBudget", "ChartToAsk", "answer_chart_by_model"]
