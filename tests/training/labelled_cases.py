"""Invented cases with labels, which differ in one number."""

from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from tests.engine.conftest import NOTE, make_case
from training.regression import LabelledCase

ESSENTIAL = {"s2", "s3", "s6"}


def labelled(number: int) -> LabelledCase:
    case = make_case((*NOTE, f"Her weight was {number} kg."))
    labels = {
        sid: Relevance.ESSENTIAL if sid in ESSENTIAL else Relevance.NOT_RELEVANT
        for sid in case.sentence_ids
    }
    return case, CaseKey(case_id=case.id, labels=labels)
