"""From a question to a typed query without a model.

A grammar fills the slots of the query; names come from the patient's own record.
"""

from archqa.errors import NotUnderstood
from archqa.query.questions.ehrsql.parser import Parser, parse

__all__ = ["NotUnderstood", "Parser", "parse"]
