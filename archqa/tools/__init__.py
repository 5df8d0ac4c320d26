"""What an agent may do to a record: typed functions with a schema, and a sandbox for code."""

from archqa.tools.base import Given, Tool, failed, named
from archqa.tools.fhir_search import (
    TYPES,
    FhirRequestGet,
    GetResourcesByPatientFhirId,
    GetResourcesByResourceId,
)
from archqa.tools.python_code import ExecutePythonCode
from archqa.tools.sandbox import Limits, Ran, run_code

__all__ = [
    "TYPES",
    "ExecutePythonCode",
    "FhirRequestGet",
    "GetResourcesByPatientFhirId",
    "GetResourcesByResourceId",
    "Given",
    "Limits",
    "Ran",
    "Tool",
    "failed",
    "named",
    "run_code",
]
