"""What the record of one patient holds, in the words of a query: for whoever writes queries.

`contents_of` reads the rows of every kind once; `contents_card`, `look_up` and `explain_empty` tell
of them.
"""

from archqa.query.contents.card import MAX_CARD_CHARACTERS, contents_card
from archqa.query.contents.empty_results import explain_empty
from archqa.query.contents.inventory import KindContents, NamedRows, RecordContents, contents_of
from archqa.query.contents.name_lookup import look_up

__all__ = [
    "MAX_CARD_CHARACTERS",
    "KindContents",
    "NamedRows",
    "RecordContents",
    "contents_card",
    "contents_of",
    "explain_empty",
    "look_up",
]
