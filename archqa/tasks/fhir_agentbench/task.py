"""The task FHIR-AgentBench."""

from archqa.tasks.fhir_agentbench import NAME
from archqa.tasks.fhir_agentbench.cases import FhirAgentBench
from archqa.tasks.fhir_agentbench.result import RecordResult
from archqa.tasks.task import ScoreDisplay

FHIR_AGENTBENCH = FhirAgentBench(
    NAME,
    "FHIR-AgentBench",
    marks=frozenset({"question", "patient_fhir_id"}),
    result_type=RecordResult,
    pipelines_path="archqa.tasks.fhir_agentbench.pipelines.catalogue:RECORD_PIPELINES",
    scoring_path="archqa.tasks.fhir_agentbench.scoring:BRIDGE",
    display=ScoreDisplay(
        headline=("answer_correctness", "precision", "recall", "f1", "cited_f1"),
        max_score=1.0,
        decimals=3,
    ),
)
