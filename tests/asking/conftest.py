"""Scripted models for tests of questions about a note or a record."""

from tests.runs.conftest import make_scripted_model, model

__all__ = ["make_scripted_model", "model"]
