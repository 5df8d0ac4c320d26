"""The embedded engine: probabilities, evidence and a cited answer without a model server."""

from archqa.core.case_digest import case_digest
from archqa.engine.engine import Engine

__all__ = ["Engine", "case_digest"]
