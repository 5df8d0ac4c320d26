"""The embedded engine: from sentences to probabilities, a chosen set and a cited answer, without a model server."""

from archqa.evidence.digest import case_digest
from archqa.evidence.engine import Engine

__all__ = ["Engine", "case_digest"]
