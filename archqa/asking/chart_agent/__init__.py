"""Answers questions about a patient's chart by a model that looks up notes and record itself."""

from archqa.asking.chart_agent.asking import CHART_AGENT, answer_chart_by_model
from archqa.asking.chart_agent.conversation import ChartBudget
from archqa.asking.chart_agent.shown import ChartToAsk

__all__ = ["CHART_AGENT", "ChartBudget", "ChartToAsk", "answer_chart_by_model"]
