"""Reviews of answers by people, and the keys made of them.

`ReviewStore` saves, takes back, lists and adjudicates reviews, and writes keys.
"""

from archqa.review.changes import SubmittedReview
from archqa.review.event import AnswerVersion, ReviewEvent
from archqa.review.state import CaseSetReviews, agreement
from archqa.review.store import ReviewStore

__all__ = [
    "AnswerVersion",
    "CaseSetReviews",
    "ReviewEvent",
    "ReviewStore",
    "SubmittedReview",
    "agreement",
]
