"""What words mean where medicine leaves it open: one switch each, and two named sets of them.

`clinical` is what a clinician would expect. `mimic-ehrsql` is what the gold answers of FHIR-AgentBench mean: they were
computed by SQL on MIMIC-IV tables (EHRSQL-2024), and many of its ways belong to that benchmark, not to medicine.
"""

from typing import Literal

from pydantic import Field

from archqa.core.value import FrozenModel
from archqa.errors import CallerError


class Conventions(FrozenModel):
    """How to read a query. The defaults are the clinical ones."""

    name: str = "clinical"
    current_visit: Literal["latest", "without_end"] = Field(
        default="latest",
        description="The current visit is the latest one without an end. latest: if every visit has ended, the most "
        "recent one stands in, with a warning; without_end: then there is none, and no answer.",
    )
    now: Literal["as_given", "midnight"] = Field(
        default="as_given", description="midnight: the clock is turned back to 00:00:00 of its day."
    )
    since_window_end: Literal["never", "with_the_clock"] = Field(
        default="never",
        description="with_the_clock: 'since' leaves out what lies after the clock's day.",
    )
    months_back: Literal["last_day", "overflow"] = Field(
        default="last_day",
        description="31 December minus one month: last_day: 30 November; overflow: 31 November, which is 1 December.",
    )
    names: Literal["words", "equal"] = Field(
        default="words",
        description="equal: the name in full, but for case and outer white space. words: for measurements the name "
        "in full if the record has it, else all its words; for drugs, procedures and diagnoses all its words.",
    )
    distinct_name_matching: Literal["folded", "as_written"] = Field(
        default="folded",
        description="Whether `Vancomycin` and `vancomycin` are one drug, or (as_written) two.",
    )
    times: Literal["instants", "wall_clock"] = Field(
        default="instants",
        description="Order and lengths by true time, or by the local clock without its zone.",
    )
    requires_encounter: bool = Field(
        default=False,
        description="Lab results and microbiology tests outside of any encounter are left out, and what has no "
        "encounter belongs to no visit; else its time tells to which it belongs.",
    )
    include_icu_procedures: bool = Field(
        default=True,
        description="Whether what was done in the ICU (lines, imaging, ventilation) counts as a procedure.",
    )
    convert_to_celsius: bool = Field(
        default=True, description="Degrees Fahrenheit are converted, so that all compare."
    )
    censored_values: Literal["as_bound", "left_out"] = Field(
        default="as_bound",
        description="'< 0.01' counts as 0.01, with a warning, or is left out as no number.",
    )
    include_text_values: bool = Field(
        default=True, description="A result in words is told; else it is no value."
    )
    missing_start_policy: Literal["authored", "authored_unless_ordered"] = Field(
        default="authored",
        description="A prescription without a start has the time it was written; authored_unless_ordered: not for "
        "first, last and so on, where it is left out.",
    )
    admission_types: Literal["as_recorded", "mimic"] = Field(
        default="as_recorded",
        description="The encounter's class in words, or MIMIC-IV's admission_type guessed from class, priority, source "
        "and wards (right in 262 of 275 visits of the demo).",
    )
    demographic_coding: Literal["plain", "mimic"] = Field(
        default="plain",
        description="Words for sex and marital status: female, married; or F, MARRIED as in MIMIC-IV.",
    )
    marital_status_source: Literal["patient", "last_admission"] = Field(
        default="patient",
        description="last_admission: the Patient's marital status was taken from the last admission, whose Encounter "
        "is evidence too.",
    )


CLINICAL = Conventions()
MIMIC_EHRSQL = Conventions(
    name="mimic-ehrsql",
    current_visit="without_end",
    now="midnight",
    since_window_end="with_the_clock",
    months_back="overflow",
    names="equal",
    distinct_name_matching="as_written",
    times="wall_clock",
    requires_encounter=True,
    include_icu_procedures=False,
    convert_to_celsius=False,
    censored_values="left_out",
    include_text_values=False,
    missing_start_policy="authored_unless_ordered",
    admission_types="mimic",
    demographic_coding="mimic",
    marital_status_source="last_admission",
)
CONVENTIONS = {each.name: each for each in (CLINICAL, MIMIC_EHRSQL)}


def get_conventions(name: str | Conventions) -> Conventions:
    """The conventions of that name. Raises `CallerError` if there are none."""
    if isinstance(name, Conventions):
        return name
    if name not in CONVENTIONS:
        raise CallerError(
            f"There are no conventions named {name!r}.\nThere are: {', '.join(CONVENTIONS)}."
        )
    return CONVENTIONS[name]
