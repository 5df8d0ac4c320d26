"""The benchmarks as tasks of Inspect; Inspect finds them by the entry point `archqa`."""

from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample

from archqa.core.case import Case
from archqa.core.question import ClinicalTask, Item, RecordQuestion
from archqa.integrations.inspect_ai.scorers import archqa_scores, benchmark_scores
from archqa.integrations.inspect_ai.solver import pipeline_solver
from archqa.runs.plan import Plan, Selection, plan_run
from archqa.settings import load_settings
from archqa.tasks import archehr_2025 as archehr_2025_task
from archqa.tasks import fhir_agentbench as fhir_agentbench_task
from archqa.tasks import medagentbench as medagentbench_task

MODEL = "inspect"
"""The model's name in archqa's settings: which one it is, Inspect says."""

Assignments = str | list[str]
"""Settings of archqa: `labels=multiclass`, or several."""


@task
def archehr_2025(
    cases: str, key: str | None = None, pipeline: str | None = None, assign: Assignments = ""
) -> Task:
    """ArchEHR-QA 2025: cited answers from notes. The key may lie next to the cases."""
    return _task(archehr_2025_task.NAME, cases, key, {"pipeline": pipeline}, assign)


@task
def fhir_agentbench(
    cases: str,
    record: str,
    key: str | None = None,
    pipeline: str | None = None,
    assign: Assignments = "",
) -> Task:
    """FHIR-AgentBench: questions to a FHIR record, with the record's tools."""
    typed = {"pipeline": pipeline, "record": record}
    return _task(fhir_agentbench_task.NAME, cases, key, typed, assign)


@task
def medagentbench(
    cases: str,
    record: str,
    key: str | None = None,
    pipeline: str | None = None,
    functions: str | None = None,
    assign: Assignments = "",
) -> Task:
    """MedAgentBench: tasks on a FHIR record behind archqa's gateway, graded against that record."""
    typed = {"pipeline": pipeline, "record": record, "functions": functions}
    return _task(medagentbench_task.NAME, cases, key, typed, assign)


def _task(
    benchmark: str,
    cases: str,
    key: str | None,
    typed: Mapping[str, str | None],
    assign: Assignments,
) -> Task:
    assignments = [assign] if isinstance(assign, str) else assign
    # Inspect has a cache of its own, and its log is of what was asked.
    settings = load_settings(
        typed={**typed, "model": MODEL, "cache": False}, assignments=filter(None, assignments)
    )
    plan = plan_run(cases, benchmark, Selection(), settings)
    files = {"benchmark": benchmark, "cases": cases, "key": key, "record": settings.record}
    return Task(
        dataset=MemoryDataset([_sample(case) for case in plan.cases], name=benchmark),
        solver=pipeline_solver(plan),
        scorer=archqa_scores(**files),
        metrics=[benchmark_scores(**files)],
        metadata=_provenance(plan),
        version=plan.manifest.versions["archqa"],
    )


def _sample(case: Item) -> Sample:
    return Sample(id=case.id, input=_question(case))


def _question(case: Item) -> str:
    if isinstance(case, RecordQuestion):
        return case.question
    if isinstance(case, ClinicalTask):
        return f"{case.instruction}\n{case.context}".strip()
    assert isinstance(case, Case)
    return case.clinician_question or case.patient_narrative


def _provenance(plan: Plan) -> dict[str, Any]:
    """What `run.json` of a run would say, for Inspect's log."""
    names = {"task", "pipeline", "data", "settings", "prompts", "inputs", "remarks"}
    names |= {"versions", "plug_ins", "git_revision"}
    return {"archqa": plan.manifest.model_dump(mode="json", include=names)}
