"""Conditions on tokens: codes, and the words of `:text`.

Source: hl7.org/fhir/R4/search.html#token.
"""

from sqlite3 import Connection

from archqa.fhir.index.reference_graph import sql_number_list
from archqa.fhir.profile import Profile
from archqa.fhir.search import value_clauses
from archqa.fhir.search.compiled_filter import in_all_schemas
from archqa.fhir.search.query import Filter
from archqa.fhir.search.value_clauses import SqlClause, any_of
from archqa.fhir.values.search_parameters import Parameter
from archqa.fhir.values.text import normalise_text
from archqa.fhir.values.urls import unescape


class TokenConditions:
    """Conditions on the tokens of elements; remarks on how codes were read go to `notices`."""

    def __init__(
        self,
        connection: Connection,
        profile: Profile,
        schemas: tuple[str, ...],
        notices: list[str],
    ) -> None:
        self._connection = connection
        self._profile = profile
        self._schemas = schemas
        self._notices = notices

    def any_of_codes(self, search_filter: Filter, element_ids: str) -> SqlClause:
        """Return a condition for any of these codes.

        The terms are looked up first, so that many codes take hardly longer than one.
        """
        clauses: list[SqlClause] = []
        terms: dict[int, None] = {}
        for value in search_filter.values:
            system = value_clauses.system_clause(value)
            if system is not None:
                clauses.append(system)
                continue
            condition = self._token_condition(search_filter.parameter, value, element_ids)
            sql = f"SELECT t FROM term x WHERE {condition.sql}"
            for (t,) in self._connection.execute(sql, condition.args):
                terms[t] = None
        if terms or not clauses:
            clauses.append(SqlClause(f"x.t IN ({sql_number_list(terms)})"))
        return any_of(clauses)

    def _token_condition(
        self,
        parameter: Parameter,
        value: str,
        element_ids: str,
    ) -> SqlClause:
        """Return a condition for a code.

        In the archqa profile, a code that does not occur is tried without regard to case.
        """
        exact = _term_condition(value_clauses.token_clause(value))
        if not self._profile.extensions_enabled or self._occurs(exact, element_ids):
            return exact
        folded = _term_condition(value_clauses.token_clause(value, ignore_case=True))
        name = parameter.name
        if self._occurs(folded, element_ids):
            self._notices.append(
                f"{name}: no such code; matched without regard to case and white space."
            )
        elif name.endswith(":identifier"):
            self._note_no_reference_identifier(name)
        elif not (parameter.is_identifier or name.endswith(":of-type")):
            self._notices.append(
                f"{name}: no resource has this code. To search by words, write {name}:text=words."
            )
        return folded

    def _note_no_reference_identifier(self, name: str) -> None:
        chained = name.replace(":", ".")
        self._notices.append(
            f"{name} looks at the identifier in the reference itself, and none is like this. To"
            f" search by the identifier of the resource, write {chained}=…"
        )

    def _occurs(self, condition: SqlClause, element_ids: str) -> bool:
        where = f"x.p IN ({element_ids}) AND {condition.sql}"
        select = SqlClause(f"SELECT x.t FROM here.token x WHERE {where}", condition.args)
        select = in_all_schemas(select, self._schemas)
        row = self._connection.execute(f"{select.sql} LIMIT 1", select.args).fetchone()
        return row is not None

    def text(self, value: str, element_ids: str) -> SqlClause:
        """Return a condition for `:text`: the display or text contains the value.

        Outside of the archqa profile it must start with the value.
        """
        folded = normalise_text(unescape(value))
        words = "(SELECT words FROM term WHERE t = v.t)"
        if self._profile.extensions_enabled:
            condition = SqlClause(f"instr({words}, ?) > 0", (folded,))
        else:
            condition = SqlClause(f"substr({words}, 1, ?) = ?", (len(folded), folded))
        where = f"v.p IN ({element_ids}) AND {condition.sql}"
        return SqlClause(f"x.t IN (SELECT v.t FROM vocabulary v WHERE {where})", condition.args)


def _term_condition(where: SqlClause) -> SqlClause:
    return SqlClause(f"x.t IN (SELECT t FROM term WHERE {where.sql})", where.args)
