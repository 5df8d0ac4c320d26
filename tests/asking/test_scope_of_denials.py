"""How far a denial reaches in a sentence of a note: a wrong "No" is worse than none."""

import archqa


def test_a_finding_is_denied_by_words_that_follow_it_closely() -> None:
    answer = archqa.ask(
        "Did she have pneumonia?", note="Pneumonia has now been ruled out."
    )
    assert answer.text.startswith("No. ")


def test_a_finding_is_not_denied_by_words_far_behind_it() -> None:
    note = (
        "Pneumonia was seen on the film of that morning by two radiologists before a small clot "
        "in the calf was ruled out."
    )
    answer = archqa.ask("Was pneumonia seen?", note=note)
    assert answer.text.startswith("Yes. Pneumonia was seen")


def test_a_short_denial_in_other_words_than_the_questions_is_a_no() -> None:
    answer = archqa.ask(
        "Was the nerve squeezed?", note="There was no neural impingement."
    )
    assert answer.text.startswith("No. ")


def test_a_long_sentence_that_begins_with_a_denial_is_shown_without_a_no() -> None:
    note = (
        "There was no reason to repeat the scan that had shown the nerve of the left leg caught "
        "between the two lowest discs."
    )
    answer = archqa.ask("Was the nerve squeezed?", note=note)
    assert answer.text.startswith("There was no reason to repeat the scan")
