"""Stage 3 of 6: which specialists should judge this case (paper §3.2, Experts Recruitment)."""

from typing import Annotated

from pydantic import Field

from archqa.agents.agent import Agent, CaseTask, join_ids, reject_all
from archqa.core.id_lists import list_ids
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues
from archqa.terminology.words import word_list

SPECIALTIES = tuple(sorted(name.replace("_", " ") for name in word_list("specialty")))
"""The specialties there are, under one name each: two names for one field would be two votes."""

Specialty = Annotated[str, Field(json_schema_extra={"choices": "specialty"})]


class RecruitingTask(CaseTask):
    """A case, and how many specialists may be called."""

    most: int = 2


class RecruitedExperts(FrozenModel):
    """The specialties called in, each named once."""

    experts: tuple[Specialty, ...]


class RecruitingAgent(Agent[RecruitingTask, RecruitedExperts]):
    """Names the medical specialties whose view this question needs."""

    name = "recruiting"
    prompt = "recruiting/v3"
    task_type = RecruitingTask
    output_type = RecruitedExperts

    def choices(self, task: RecruitingTask) -> AllowedValues:
        """The specialties there are."""
        return {"specialty": SPECIALTIES}

    def check(self, task: RecruitingTask, output: RecruitedExperts) -> None:
        """Between one and `most` of the specialties, none repeated."""
        problems = []
        if not 1 <= len(output.experts) <= task.most:
            problems.append(
                f"Name between 1 and {task.most} specialties; you name {len(output.experts)}."
            )
        unknown = sorted(set(output.experts) - set(SPECIALTIES))
        if unknown:
            problems.append(
                f"There is no specialty {list_ids(unknown)} here; take the nearest of: "
                f"{join_ids(SPECIALTIES)}."
            )
        if len(set(output.experts)) < len(output.experts):
            problems.append("You name a specialty twice; name each once.")
        reject_all(*problems)

    def salvage(
        self, task: RecruitingTask, output: RecruitedExperts
    ) -> RecruitedExperts | None:
        """The first of the specialties."""
        names = dict.fromkeys(name.strip().lower() for name in output.experts)
        known = tuple(name for name in names if name in SPECIALTIES)
        return RecruitedExperts(experts=known[: task.most]) if known else None
