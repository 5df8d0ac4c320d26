"""The task MedAgentBench."""

from archqa.tasks.medagentbench import NAME
from archqa.tasks.medagentbench.cases import MedAgentBench
from archqa.tasks.medagentbench.result import ConversationResult
from archqa.tasks.task import ScoreDisplay

MEDAGENTBENCH = MedAgentBench(
    NAME,
    "MedAgentBench",
    marks=frozenset({"instruction", "eval_MRN"}),
    result_type=ConversationResult,
    pipelines_path="archqa.tasks.medagentbench.pipelines.conversation:CLINICAL_PIPELINES",
    scoring_path="archqa.tasks.medagentbench.scoring:BRIDGE",
    display=ScoreDisplay(
        headline=("success_rate", "query_success_rate", "action_success_rate"),
    ),
)
