r"""Composite parameters: `code-value-quantity=8480-6$gt140`.

Source: hl7.org/fhir/R4/search.html#combining. The halves, parted by `$` (`\$` is the character),
must hold in the same item: in one component, not in two.
"""

from archqa.fhir.index.item_numbers import RESOURCE_OF_ITEM_SQL
from archqa.fhir.search.compiled_filter import INDEX_TABLES
from archqa.fhir.search.value_clauses import SqlClause, joined_args
from archqa.fhir.values.search_parameters import THE_RESOURCE, Kind


def select_resources(
    group: str,
    halves: list[tuple[Kind, str, SqlClause]],
    scope: str,
) -> SqlClause:
    """Select the resources with an item of a group whose index rows pass all conditions.

    A half is the kind of its index, its elements as SQL, and the condition. `scope` is a condition
    on the rows of the first.
    """
    (kind, element_ids, condition), *others = halves
    where = f"x.p IN ({element_ids}){scope} AND ({condition.sql})"
    items = f"SELECT DISTINCT x.n FROM here.{INDEX_TABLES[kind]} x WHERE {where}"
    conditions = [_has_row(*half) for half in others]
    number = "y.n" if group == THE_RESOURCE else RESOURCE_OF_ITEM_SQL.format("y.n")
    tests = " AND ".join(clause.sql for clause in conditions)
    sql = f"SELECT {number} AS n FROM ({items}) y WHERE {tests}"
    return SqlClause(sql, joined_args([condition, *conditions]))


def _has_row(kind: Kind, element_ids: str, condition: SqlClause) -> SqlClause:
    """Return the condition that item `y` has an index row that passes a condition."""
    where = f"x.n = y.n AND x.p IN ({element_ids}) AND ({condition.sql})"
    sql = f"EXISTS (SELECT 1 FROM here.{INDEX_TABLES[kind]} x WHERE {where})"
    return SqlClause(sql, condition.args)
