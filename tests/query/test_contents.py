"""What a record holds, told to whoever writes a query: the card, look-ups, and why nothing was found."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import Store
from archqa.query import Chart, Query, execute
from archqa.query.contents import (
    MAX_CARD_CHARACTERS,
    RecordContents,
    contents_card,
    contents_of,
)
from archqa.query.kinds import KINDS
from archqa.query.lookup import explain_empty, look_up
from tests.fhir.invented import (
    build_store,
    numbered_observations,
    patient,
    ward_resources,
)
from tests.query.clinic import (
    NOW,
    RXNORM,
    Resource,
    clinic_record,
    coded,
    order,
    result,
)
from tests.query.invented import random_record

Charted = Callable[[list[Resource]], Chart]


@pytest.fixture
def charted(tmp_path: Path) -> Iterator[Charted]:
    """A function that gives the chart of patient p in a record of these resources."""
    stores: list[Store] = []

    def chart_of(resources: list[Resource]) -> Chart:
        store = build_store(tmp_path / str(len(stores)), [patient("p"), *resources])
        stores.append(store)
        return Chart(store, "p")

    yield chart_of
    for store in stores:
        store.close()


def contents(chart: Chart) -> RecordContents:
    return contents_of(chart, "clinical")


def explained(chart: Chart, **fields: Any) -> str:
    """What is said of a query that finds nothing."""

    def run(query: Query) -> Any:
        return execute(query, chart.record, chart.patient, chart=chart)

    empty = run(Query.model_validate({"now": NOW, **fields}))
    assert not empty.chosen
    return "\n".join(explain_empty(empty, contents(chart), run))


def glucose(place: int, time: str) -> Resource:
    return result(
        f"o{place}", "2339-0", "Glucose [Mass/volume] in Blood", time, (90, "mg/dL")
    )


def test_the_card_counts_every_kind_of_rows_with_its_dates(charted: Charted) -> None:
    card = contents_card(contents(charted(clinic_record())))
    assert "medication: 3 rows, 2020-01-01 to 2020-01-05" in card
    assert '\n  routes: "Oral" 1' in card
    assert '\n  names (2): "Enoxaparin 40 MG" 2, "Lisinopril 10 MG" 1' in card
    assert "encounter: 1 row, 2020-01-01\n  starts, latest first: 2020-01-01" in card
    assert "\n  classes: " in card
    for what in KINDS:
        assert f"\n{what}: " in f"\n{card}" or f" {what}" in card.splitlines()[-1]


@pytest.mark.parametrize(
    ("resources", "who", "line"),
    [
        (ward_resources(), "p1", "\ncare_unit: "),
        (random_record(3), "p", "\n  specimens: "),
        (random_record(3), "p", "\n  routes: "),
    ],
)
def test_the_card_holds_wards_specimens_and_routes(
    tmp_path: Path, resources: list[Resource], who: str, line: str
) -> None:
    with build_store(tmp_path / "ward", resources) as store:
        assert line in contents_card(contents_of(Chart(store, who), "mimic-ehrsql"))


@pytest.mark.parametrize("characters", [200, 2500])
def test_the_card_is_never_longer_than_its_limit(
    charted: Charted, characters: int
) -> None:
    """Whatever the record calls things: long names, many names, many kinds."""
    many = [order(f"m{place}", f"{place} {'x' * characters}") for place in range(150)]
    results = [
        result(
            f"o{place}",
            str(place),
            f"{place} {'y' * characters}",
            "2020-01-01",
            (1, "1"),
        )
        for place in range(150)
    ]
    card = contents_card(contents(charted([*clinic_record(), *many, *results])))
    assert 0.95 * MAX_CARD_CHARACTERS <= len(card) <= MAX_CARD_CHARACTERS
    assert "coverage: 1 row" in card
    assert "more" in card


def test_rows_that_a_kind_hides_are_counted_where_they_are_told(tmp_path: Path) -> None:
    """Laboratory results are results, too; their names stand under lab alone."""
    observations = numbered_observations(30, "p")
    with build_store(tmp_path / "labs", [patient("p"), *observations]) as store:
        card = contents_card(contents_of(Chart(store, "p"), "clinical"))
    assert card.count('"Glucose"') == 1
    assert "lab: 30 rows" in card
    assert "observation: 30 rows" in card


def test_the_card_describes_the_kinds_of_a_question_and_counts_the_others(
    charted: Charted,
) -> None:
    card = contents_card(
        contents(charted(clinic_record())), kinds=["medication", "goal"]
    )
    first, *_ = card.splitlines()
    assert first.startswith("medication: 3 rows, 2020-01-01 to 2020-01-05. One drug")
    assert "dose" in first
    assert '"Enoxaparin 40 MG" 2' in card
    assert "encounter 1" in card.splitlines()[-2]
    assert "Returns also" not in card.partition("Rows of other kinds")[2]


def test_a_name_that_an_export_wrote_as_a_dictionary_is_shown_as_its_text(
    charted: Charted,
) -> None:
    written = "{'text': 'Walk more', 'addresses': ['weight']}"
    goal = {
        "resourceType": "Goal",
        "id": "g",
        "lifecycleStatus": "active",
        "description": {"text": written},
        "subject": {"reference": "Patient/p"},
    }
    chart = charted([goal])
    assert 'names (1): "Walk more" 1' in contents_card(contents(chart))
    assert look_up(contents(chart), "walk") == ('goal "Walk more" (1 row)',)


def test_words_of_the_record_come_before_what_a_concept_means(
    charted: Charted,
) -> None:
    chart = charted(
        [
            glucose(1, "2020-01-01"),
            result("s", "", "Sugar test", "2020-01-01", (1, "1")),
        ]
    )
    names = [line.split('"')[1] for line in look_up(contents(chart), "sugar")]
    assert names[0] == "Sugar test"


def test_words_that_no_name_has_together_are_looked_up_one_by_one(
    charted: Charted,
) -> None:
    line, *_ = look_up(contents(charted(clinic_record())), "the enoxaparin syringes")
    assert line.startswith('medication "Enoxaparin 40 MG" (2 rows')


def test_a_look_up_tells_kind_count_dates_and_concept(charted: Charted) -> None:
    chart = charted([glucose(1, "2020-01-01"), glucose(2, "2020-03-02")])
    first, second = look_up(contents(chart), "her blood sugar")
    assert second == 'concept "glucose" (measurement)'
    assert first == (
        'lab "Glucose [Mass/volume] in Blood" (2 rows, 2020-01-01 to 2020-03-02, '
        "in mg/dL), concept: glucose"
    )
    assert look_up(contents(chart), "2339-0") == (first,)
    assert look_up(contents(chart), "Glucose [Mass/volum] in Blod") == (first,)
    assert look_up(contents(chart), "unicorn") == ()


def test_a_look_up_tells_values_of_limits(charted: Charted) -> None:
    assert look_up(contents(charted(clinic_record())), "oral") == (
        'medication routes "Oral" (1 rows)',
    )


def test_a_whole_word_counts_before_a_part_of_one(charted: Charted) -> None:
    chart = charted([order("1", "Iron (PO)"), order("2", "Potassium")])
    [hit] = look_up(contents(chart), "PO")
    assert "Iron (PO)" in hit
    [hit] = look_up(contents(chart), "potass")
    assert "Potassium" in hit


def test_nothing_found_says_after_which_limit_and_what_there_is_instead(
    charted: Charted,
) -> None:
    text = explained(
        charted(clinic_record()),
        what="medication",
        names=["lisinopril"],
        routes=["IV"],
        returns="name",
    )
    assert (
        "3 prescribed drugs; 1 prescribed drugs 'lisinopril'; 0 prescribed drugs"
        in text
    )
    assert "No row is left after the route." in text
    assert 'by routes: "Oral" 1' in text


def test_nothing_found_in_a_span_or_a_visit_says_when_there_is_something(
    charted: Charted,
) -> None:
    chart = charted([*clinic_record(), glucose(1, "2021-05-01")])
    text = explained(
        chart,
        what="observation",
        concepts=["glucose"],
        when={"spans": [{"year": 2019}]},
    )
    assert "No row is left after the span." in text
    assert "2 rows, 2020-01-01 to 2021-05-01" in text
    visit = {"kind": "icu", "which": "first"}
    text = explained(chart, what="observation", names=["Latex"], when={"visit": visit})
    assert "No row is left after the name." in text
    text = explained(
        chart,
        what="procedure",
        returns="time",
        when={"visit": {**visit, "which": "third"}},
    )
    assert "No row is left after the visit." in text


def test_nothing_found_at_a_position_says_how_many_there_are(charted: Charted) -> None:
    chart = charted([glucose(1, "2020-01-01"), glucose(2, "2020-03-02")])
    text = explained(
        chart, what="observation", concepts=["glucose"], when={"position": "third"}
    )
    assert "2 results of glucose; 0 results of glucose at the third time" in text
    assert "No row is left after the position." in text


def test_a_name_of_another_kind_is_told_with_its_rows(charted: Charted) -> None:
    text = explained(
        charted(clinic_record()), what="diagnosis", names=["Latex"], returns="time"
    )
    assert "All diagnoses: 1 row, 2019-01-01." in text
    assert "Rows of that name under other kinds: 1." in text
    assert '\nallergy "Latex" (1 row)' in text


def test_a_misspelt_name_is_told_its_neighbours(charted: Charted) -> None:
    text = explained(
        charted(clinic_record()), what="allergy", names=["Latx"], returns="name"
    )
    assert 'Called so, or similarly:\nallergy "Latex" (1 row)' in text


def test_a_state_that_no_row_has_is_told_the_statuses(charted: Charted) -> None:
    chart = charted(
        [order("1", "Warfarin 5 MG", "stopped", concept=coded("1", "Warfarin", RXNORM))]
    )
    text = explained(
        chart, what="medication", names=["warfarin"], state="current", returns="name"
    )
    assert "No row is left after the state." in text
    assert 'by status: "stopped" 1' in text


def test_a_look_up_tells_the_twelve_most_frequent_names(charted: Charted) -> None:
    orders = [order(f"m{place}", f"Drug {place}") for place in range(20)]
    often = [order(f"n{place}", "Drug of choice") for place in range(3)]
    hits = look_up(contents(charted([*orders, *often])), "drug")
    assert len(hits) == 12
    assert '"Drug of choice" (3 rows' in hits[0]
