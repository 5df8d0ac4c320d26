"""Scripted models for tests of scoring."""

from tests.runs.conftest import make_scripted_model, model

__all__ = ["make_scripted_model", "model"]
