"""The solver: a pipeline of archqa on one sample, with Inspect's model."""

from typing import Any

from inspect_ai.solver import Generate, Solver, TaskState, solver

from archqa.core.question import Item
from archqa.core.step import Step
from archqa.core.usage import sum_usage
from archqa.errors import CaseFailed
from archqa.integrations.inspect_ai.model import InspectModel
from archqa.runs.backends import Backends
from archqa.runs.plan import Plan
from archqa.runs.record import CaseRecord
from archqa.runs.runner import answered_record, failed_record

RECORD = "archqa_case"
"""The key of a sample's `CaseRecord` in the metadata of its state."""


def pipeline_solver(plan: Plan) -> Solver:
    """Runs the pipeline of a plan on each sample; a case that fails gets the record of a failure.

    What ends a run of archqa's own (a server that is down, a limit) is an error of the sample, which
    Inspect retries or counts as it is told to.
    """
    cases = {case.id: case for case in plan.cases}

    @solver
    def archqa_pipeline(pipeline: str) -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            record = await _record_of(cases[str(state.sample_id)], plan)
            state.metadata[RECORD] = record.model_dump(mode="json")
            state.output.completion = _answer(record)
            return state

        return solve

    # Inspect writes the arguments of a solver into its log: not the plan, which holds the cases.
    return archqa_pipeline(plan.pipeline.name)


async def _record_of(case: Item, plan: Plan) -> CaseRecord:
    steps: list[Step] = []
    backends = Backends(plan.settings, plan.pipeline, InspectModel())
    settings = plan.settings.for_pipeline(plan.pipeline)
    try:
        result = await plan.pipeline.run(case, backends.context(steps.append, case), settings)
        record = answered_record(case.id, result)
    except CaseFailed as failure:
        record = failed_record(case.id, failure)
    finally:
        await backends.close()
    usage = sum_usage(step.usage for step in steps)
    return record.model_copy(update={"usage": usage})


def _answer(record: CaseRecord) -> str:
    """The answer in words, for Inspect's viewer."""
    if record.answer is not None:
        return record.answer.submission
    text: Any = record.result.answer_text if record.result else None
    return text or record.error
