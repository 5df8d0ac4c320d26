"""Stage 3 of 6: which specialists should judge this case (paper §3.2, Experts Recruitment)."""

from archqa.agents.agent import Agent, CaseTask, Rejected
from archqa.core.value import FrozenModel

_MAX_NAME_LENGTH = 60
"""Characters of a specialty's name."""


class RecruitingTask(CaseTask):
    """A case, and how many specialists may be called."""

    most: int = 4


class RecruitedExperts(FrozenModel):
    """The specialties called in, each named once, in lower case."""

    experts: tuple[str, ...]


class RecruitingAgent(Agent[RecruitingTask, RecruitedExperts]):
    """Names the medical specialties whose view this question needs."""

    name = "recruiting"
    prompt = "recruiting/v1"
    task_type = RecruitingTask
    output_type = RecruitedExperts

    def check(self, task: RecruitingTask, output: RecruitedExperts) -> None:
        """Between one and `most` names, none repeated, none too long."""
        if not 1 <= len(output.experts) <= task.most:
            raise Rejected(
                f"Name between 1 and {task.most} specialties; you name {len(output.experts)}."
            )
        for name in output.experts:
            if not _is_usable(name):
                raise Rejected(
                    "Each expert is the short name of one medical specialty, such as cardiology."
                )
        distinct_names = {name.strip().lower() for name in output.experts}
        if len(distinct_names) < len(output.experts):
            raise Rejected("You name a specialty twice; name each once.")

    def salvage(self, task: RecruitingTask, output: RecruitedExperts) -> RecruitedExperts | None:
        """The first usable names."""
        names: dict[str, None] = {}
        for name in output.experts:
            if _is_usable(name):
                names[name.strip().lower()] = None
        if not names:
            return None
        return RecruitedExperts(experts=tuple(names)[: task.most])


def _is_usable(name: str) -> bool:
    return bool(name.strip()) and len(name) <= _MAX_NAME_LENGTH
