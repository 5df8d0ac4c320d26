"""Runs a model of one's own through `dmis` and `planner` and counts what its replies were worth.

    python -m tests.benchmarks.own_model --base-url http://127.0.0.1:8080/v1 --model NAME
    python -m tests.benchmarks.own_model --gguf model.gguf    (starts llama.cpp; needs xllamacpp)

Without either, the SmolLM2-135M of the tests. The cases are the three of `mini` and three questions about an
invented record; nothing is asked of a real patient. `dmis` screens in batches; the planner has no parser to
fall back on, so that only the model's own queries count.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from archqa import resources
from archqa.core.step import Step
from archqa.runs.model_server import resolve_model
from archqa.runs.plan import Selection
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from archqa.runs.run import Run
from archqa.settings import load_settings
from archqa.tasks.fhir_agentbench import NAME as FHIR_TASK
from archqa.tasks.pipelines import find as find_pipeline
from tests.fhir.invented import build_store
from tests.runs.fhir_questions import RESOURCES, question_rows, write_csv
from tests.server.llama import CONTEXT, llama_server

MINI = resources.mini_dataset_dir() / "mini.json"

PIPELINES: dict[str, tuple[str, ...]] = {
    "dmis": ("screen=batched",),
    "planner": ("fallback=false",),
}
"""The pipelines, each with its own settings."""


class Outcome(NamedTuple):
    """What became of the cases of one run, and of the model's replies.

    A reply that fails its check is asked for again; `repaired` counts the replies of which a part could
    be used. A call is lost when none of its replies could.
    """

    pipeline: str
    answered: int
    refused: int
    failed: int
    replies: int
    passed: int
    repaired: int
    repeated: int
    calls: int
    lost: int
    longest_prompt: int
    seconds: float

    def __str__(self) -> str:
        cases = self.answered + self.refused + self.failed
        return (
            f"{self.pipeline}: {self.answered} of {cases} cases answered, {self.refused} refused, "
            f"{self.failed} failed; {self.passed} of {self.replies} replies passed, "
            f"{self.repaired} repaired, {self.repeated} asked for again; {self.lost} of {self.calls} calls "
            f"lost; longest prompt {self.longest_prompt} tokens; {self.seconds:.0f} s"
        )


def run_pipeline(
    pipeline: str,
    base_url: str,
    model: str,
    folder: Path,
    cases: Path = MINI,
    max_tokens: int = 4096,
    limit: int | None = None,
    assignments: Sequence[str] = (),
) -> Run:
    """Run one pipeline on its cases, one request at a time and without the cache."""
    typed: dict[str, object] = {
        "base_url": base_url,
        "model": model,
        "pipeline": pipeline,
        "jobs": 1,
        "cache": False,
    }
    if pipeline == "planner":
        cases = write_csv(folder / "questions.csv", question_rows())
        typed["record"] = str(build_store(folder / "record", RESOURCES, "gcp").path)
    task = FHIR_TASK if pipeline == "planner" else None
    limits = [
        f"agents.{agent}.max_tokens={max_tokens}"
        for agent in find_pipeline(pipeline, task).agents
    ]
    own = PIPELINES[pipeline]
    settings = load_settings(None, typed, (*own, *limits, *assignments))
    return predict(
        cases,
        out=folder / pipeline,
        settings=settings,
        selection=Selection((), limit, None),
    )


def outcome_of(run: Run) -> Outcome:
    """Count a run's cases, replies, repairs and losses."""
    calls = defaultdict(list)
    for case in run.manifest.case_ids:
        for step in run.folder.steps(case):
            if step.backend == "model":
                calls[case, *_call_key(step)].append(step)
    steps = [step for call in calls.values() for step in call]
    return Outcome(
        pipeline=run.manifest.pipeline,
        answered=run.count(CaseStatus.ANSWERED),
        refused=run.count(CaseStatus.UNANSWERABLE),
        failed=run.count(CaseStatus.FAILED),
        replies=len(steps),
        passed=sum(not step.rejected for step in steps),
        repaired=sum(step.repaired for step in steps),
        repeated=sum(len(call) - 1 for call in calls.values()),
        calls=len(calls),
        lost=sum(all(_is_unusable(step) for step in call) for call in calls.values()),
        longest_prompt=max((step.usage.prompt_tokens for step in steps), default=0),
        seconds=run.manifest.seconds,
    )


def _call_key(step: Step) -> tuple[str, ...]:
    """What the turns of one call have in common: the agent, its subject and the prompt they open with."""
    opening = [str(message["content"]) for message in step.messages[:2]]
    return (step.agent, step.about, *opening)


def _is_unusable(step: Step) -> bool:
    return bool(step.rejected) and not step.repaired


def _remarks(run: Run) -> Iterator[str]:
    """What became of the cases: how each that failed ended, and what stood in for lost calls."""
    for record in run.records:
        if record.error:
            yield f"{record.id}: {record.error}"
        for remark in record.remarks:
            yield f"{record.id}: {remark}"


@contextmanager
def _server(base_url: str | None, gguf: Path | None) -> Iterator[str]:
    if base_url is not None:
        yield base_url
        return
    with llama_server(context=4 * CONTEXT, gguf=gguf) as url:
        yield url


def main() -> None:
    """Print a line for each pipeline."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--base-url")
    parser.add_argument("--model")
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--cases", type=Path, default=MINI, help="for dmis")
    parser.add_argument("--max-tokens", type=int, default=4096, help="of a reply")
    parser.add_argument("--pipeline", action="append", choices=tuple(PIPELINES))
    options = parser.parse_args()
    with (
        _server(options.base_url, options.gguf) as url,
        tempfile.TemporaryDirectory() as temporary,
    ):
        typed = {"base_url": url, "model": options.model}
        model = resolve_model(load_settings(None, typed, ())).model
        assert model, "name the model with --model"
        for pipeline in options.pipeline or PIPELINES:
            run = run_pipeline(
                pipeline, url, model, Path(temporary), options.cases, options.max_tokens
            )
            print(outcome_of(run))
            for remark in dict.fromkeys(_remarks(run)):
                print(f"  {remark}", flush=True)


if __name__ == "__main__":
    main()
