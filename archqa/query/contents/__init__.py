"""What the record of one patient holds, in the words of a query: for whoever writes queries.

`contents_of` reads the rows of every kind once; `contents_card`, `look_up`, `look_up_question` and
`explain_empty` tell of them.
"""

from archqa.query.contents.card import MAX_CARD_CHARACTERS, contents_card
from archqa.query.contents.empty_results import explain_empty, may_be_asked_otherwise
from archqa.query.contents.inventory import KindContents, NamedRows, RecordContents, contents_of
from archqa.query.contents.name_lookup import look_up
from archqa.query.contents.question_words import NamedWords, look_up_question

__all__ = [
    "MAX_CARD_CHARACTERS",
    "KindContents",
    "NamedRows",
    "NamedWords",
    "RecordContents",
    "contents_card",
    "contents_of",
    "explain_empty",
    "look_up",
    "look_up_question",
    "may_be_asked_otherwise",
]
