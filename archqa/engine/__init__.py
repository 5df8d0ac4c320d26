"""The embedded engine: probabilities, evidence and a cited answer without a model server."""

import os

# onnxruntime reports its use to Microsoft and keeps a device id for that (Privacy.md in its
# package), unless this is set before it is imported. Nothing may leave this machine unasked.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from archqa.core.case_digest import case_digest
from archqa.engine.engine import Engine

__all__ = ["Engine", "case_digest"]
