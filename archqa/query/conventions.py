"""What a query means where medicine leaves it open: one switch each, in two named sets.

`clinical` is what a clinician would expect. `mimic-ehrsql` is what the gold answers of
FHIR-AgentBench mean: they were computed by SQL on MIMIC-IV tables (EHRSQL-2024), and several of
its choices belong to that benchmark, not to medicine.
"""

from typing import Literal

from pydantic import Field

from archqa.core.near_misses import unknown_name
from archqa.core.value import DescribedModel


class Conventions(DescribedModel):
    """How to interpret a query. The defaults are the clinical conventions."""

    name: str = "clinical"
    current_visit: Literal["latest", "without_end"] = Field(
        default="latest",
        description="The current visit is the latest one without an end. If every visit has "
        "ended: the most recent one, with a warning (latest), or none (without_end).",
    )
    now: Literal["as_given", "midnight"] = "as_given"
    """The time of the question, or 00:00:00 of that day (midnight)."""

    since_window_end: Literal["never", "with_the_clock"] = "never"
    """Whether 'since' excludes what is later than the day of the question (with_the_clock)."""

    later_rows: Literal["left_out_if_stated", "left_out", "counted"] = Field(
        default="left_out_if_stated",
        description="Rows and visits dated after the time of the question are left out with a "
        "warning: where whoever asks stated that time (`at_stated_time`), always, or never "
        "(counted).",
    )
    month_arithmetic: Literal["last_day", "overflow"] = "last_day"
    """31 December minus one month: 30 November (last_day), or 31 November, which is 1 December (overflow)."""

    name_matching: Literal["words", "equal"] = Field(
        default="words",
        description="equal: the full name, ignoring case and outer white space. words: for "
        "measurements the full name if the record has it, else all its words; for drugs, "
        "procedures and diagnoses all its words.",
    )
    distinct_name_matching: Literal["folded", "as_written"] = "folded"
    """Whether `Vancomycin` and `vancomycin` are one drug, or two (as_written)."""

    time_comparison: Literal["instants", "wall_clock"] = "instants"
    """Order and durations by true time, or by the local clock without its zone."""

    requires_encounter: bool = Field(
        default=False,
        description="Lab results and microbiology tests without an encounter are left out, and "
        "rows without an encounter belong to no visit; else their time decides.",
    )
    include_icu_procedures: bool = True
    """Whether ICU activities (lines, imaging, ventilation) count as procedures."""

    convert_to_celsius: bool = True
    """Convert degrees Fahrenheit, so that all temperatures are comparable."""

    censored_values: Literal["as_bound", "left_out"] = "as_bound"
    """'< 0.01' counts as 0.01, with a warning, or is left out as no number."""

    include_text_values: bool = True
    """Whether a result in words is a value."""

    statuses: Literal["obeyed", "ignored"] = Field(
        default="obeyed",
        description="Whether what was entered in error, not done, refuted, cancelled or only "
        "planned is left out (obeyed), or every resource is a fact (ignored).",
    )
    one_code_is_one_thing: bool = True
    """Rows with a code of a row that has the name count too, whatever they are called there."""

    hospital_visits: Literal["inpatient", "all"] = Field(
        default="inpatient",
        description="Whether a hospital visit is one of an inpatient, or any encounter that is "
        "neither of the emergency department nor an ICU stay (all).",
    )
    medications: Literal["all", "orders"] = Field(
        default="all",
        description="Whether what the patient is said to take and what was handed over without "
        "an order are medications, too, or orders only.",
    )
    strength_as_dose: bool = True
    """Where an order has no dose with a unit, the strength in the drug's name."""

    missing_start_policy: Literal["authored", "authored_unless_ordered"] = Field(
        default="authored",
        description="A prescription without a start starts when it was written; "
        "authored_unless_ordered: except for first, last and so on, where it is left out.",
    )
    admission_types: Literal["as_recorded", "mimic"] = Field(
        default="as_recorded",
        description="The encounter's class as text, or MIMIC-IV's admission_type inferred from "
        "class, priority, source and wards (right in 262 of 275 visits of the demo).",
    )
    demographic_coding: Literal["plain", "mimic"] = "plain"
    """Sex and marital status as female, married; or as F, MARRIED as in MIMIC-IV."""

    marital_status_source: Literal["patient", "last_admission"] = Field(
        default="patient",
        description="last_admission: the Patient's marital status was copied from the last "
        "admission, whose Encounter is evidence too.",
    )


CLINICAL = Conventions()
MIMIC_EHRSQL = Conventions(
    name="mimic-ehrsql",
    current_visit="without_end",
    now="midnight",
    since_window_end="with_the_clock",
    later_rows="counted",
    month_arithmetic="overflow",
    name_matching="equal",
    distinct_name_matching="as_written",
    time_comparison="wall_clock",
    requires_encounter=True,
    include_icu_procedures=False,
    convert_to_celsius=False,
    censored_values="left_out",
    include_text_values=False,
    statuses="ignored",
    one_code_is_one_thing=False,
    hospital_visits="all",
    medications="orders",
    strength_as_dose=False,
    missing_start_policy="authored_unless_ordered",
    admission_types="mimic",
    demographic_coding="mimic",
    marital_status_source="last_admission",
)
CONVENTIONS = {
    conventions.name: conventions for conventions in (CLINICAL, MIMIC_EHRSQL)
}


def at_stated_time(name: str | Conventions) -> Conventions:
    """The conventions for a question of which the time was stated. Raises as `get_conventions`."""
    conventions = get_conventions(name)
    if conventions.later_rows == "counted":
        return conventions
    return conventions.model_copy(update={"later_rows": "left_out"})


def get_conventions(name: str | Conventions) -> Conventions:
    """The conventions of that name. Raises `CallerError` if there are none."""
    if isinstance(name, Conventions):
        return name
    if name not in CONVENTIONS:
        raise unknown_name("set of conventions", name, CONVENTIONS)
    return CONVENTIONS[name]
