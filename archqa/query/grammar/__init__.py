"""From words to a typed query without any model: a grammar with slots, and the names of the patient's own record."""

from archqa.errors import NotUnderstood
from archqa.query.grammar.parser import Parser, parse

__all__ = ["NotUnderstood", "Parser", "parse"]
