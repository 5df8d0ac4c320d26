"""The subject of a question, decided by the weights of cue words and names."""

import re
from typing import Literal, cast

from archqa.query.model import RowKind
from archqa.query.questions.ehrsql.limits import FoundVisit
from archqa.query.questions.ehrsql.names import Candidate
from archqa.query.questions.ehrsql.text import LexiconMatches
from archqa.terminology.cues import names_by_code

Subject = RowKind | Literal["emergency"]

# A name of this kind is evidence for these rows.
_SUBJECT_OF = names_by_code("subject of a name")
# Their names are everyday words ("urine", "medicine"): without a cue word they say little.
_NEEDS_CUE = frozenset(
    {"microbiology_test", "care_unit", "output", "susceptibility", "hospital_visit"}
)
_MIN_SCORE = 1.5
_STAYS: tuple[Subject, ...] = ("hospital_visit", "icu_stay", "emergency")


def classify_subject(
    cues: LexiconMatches,
    candidates: list[Candidate],
    visits: list[FoundVisit],
    *,
    row_kind: str | None,
    has_route: bool,
) -> Subject | None:
    """The kind of rows that is asked about; None if nothing in the question says."""
    weights = cues.weights("what")
    name_scores = _name_scores(candidates, weights)
    scores = dict(weights)
    for rows, name_score in name_scores.items():
        scores[rows] = scores.get(rows, 0.0) + name_score
    if row_kind:
        scores[row_kind] = scores.get(row_kind, 0.0) + 3
    if has_route:
        scores["medication"] = scores.get("medication", 0.0) + 1.5
    if weights.get("susceptibility", 0.0) < 5:
        scores.pop("susceptibility", None)
    _adjust_stay_scores(scores, weights, visits)
    subject = max(scores, key=scores.__getitem__, default=None)
    if subject is None or scores[subject] < _MIN_SCORE:
        return None
    return cast("Subject", subject)


def _name_scores(
    candidates: list[Candidate], weights: dict[str, float]
) -> dict[str, float]:
    scores: dict[str, float] = {}
    for candidate in candidates:
        rows = _SUBJECT_OF[candidate.kind]
        score = candidate.weight
        needs_cue = rows in _NEEDS_CUE and not _is_clear(candidate, candidates)
        if needs_cue and weights.get(rows, 0.0) < 2.5:
            score = score / 2
        score += _adjustment(candidate, candidates)
        scores[rows] = max(scores.get(rows, 0.0), score)
    return scores


def _adjustment(candidate: Candidate, candidates: list[Candidate]) -> float:
    """Charted items share names with labs: the exact name means the lab, a synonym the vital."""
    if any(_is_part_of(candidate, longer) for longer in candidates):
        return -1.5
    if candidate.kind == "vital":
        if candidate.match_type == "synonym":
            return 1.0
        return 0.0
    if candidate.kind != "lab":
        return 0.0
    for rival in candidates:
        is_exact_vital = rival.kind == "vital" and rival.match_type == "exact"
        if is_exact_vital and rival.start == candidate.start:
            if candidate.match_type == "exact":
                return 1.0
            return 1.5
    return 0.0


def _is_part_of(candidate: Candidate, longer: Candidate) -> bool:
    has_more_words = longer.word_count > candidate.word_count
    return has_more_words and candidate.lies_within(longer.start, longer.end)


def _is_clear(candidate: Candidate, candidates: list[Candidate]) -> bool:
    """Whether a name that usually needs a cue word is clear without: "foley", "MICU"."""
    has_several_words = candidate.word_count > 1
    if candidate.kind == "care_unit":
        is_specific = has_several_words or candidate.match_type == "synonym"
        return is_specific and "Emergency" not in candidate.names[0]
    if candidate.kind == "admission_source":
        return has_several_words
    if candidate.kind in {"specimen", "microbiology_test"}:
        return has_several_words and candidate.has_culture_word
    of_other_kinds = [rival for rival in candidates if rival.kind != candidate.kind]
    return candidate.kind == "output" and not candidate.overlaps_any(of_other_kinds)


def _adjust_stay_scores(
    scores: dict[str, float], weights: dict[str, float], visits: list[FoundVisit]
) -> None:
    non_stay_scores = [score for rows, score in scores.items() if rows not in _STAYS]
    best_non_stay = max(non_stay_scores, default=0.0)
    for stay in ("hospital_visit", "icu_stay"):
        # "Potassium when he was admitted" asks for a potassium.
        if best_non_stay >= 3.5 and stay in scores:
            scores[stay] *= 0.6
    if best_non_stay < 2.5:
        visit_kinds = {found_visit.visit.kind for found_visit in visits}
        if "icu" in visit_kinds:
            scores["icu_stay"] = scores.get("icu_stay", 0.0) + 2.5
        if "hospital" in visit_kinds:
            scores["hospital_visit"] = scores.get("hospital_visit", 0.0) + 2.0
    if (
        "icu_stay" in scores
        and "hospital_visit" in scores
        and weights.get("icu_stay", 0.0) > 0
    ):
        scores["icu_stay"] += 1.0
    if weights.get("emergency", 0.0) and scores.get("hospital_visit", 0.0):
        scores["emergency"] += 1.0


_FACTS = (
    "dose",
    "name",
    "route",
    "specimen",
    "length_of_stay",
    "elapsed",
    "admission_type",
    "admission_source",
    "value_of",
)
_ASKS = re.compile(
    r"\b(?:what|what's|whats|which|when|when's|how|where|who|list|show|give|provide|count|calculate|retrieve|name|report|"
    r"tell|know|inform|confirm|let|display|find|get|enumerate|return|fetch|pull|compute|gather|present|identify|determine)\b"
)


_CONDITIONAL = re.compile(
    r"\b(?:whether|if)\b(?! multiple| there are multiple| more than| several| any)"
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|did|does|do|been|received|prescribed|undergone|underwent|"
    r"got|given|visited|diagnosed|done|checked|drawn|sent|performed|ordered|tested|administered|"
    r"started|admitted|hospitali[sz]ed|seen|ever|any)\b"
)


def asks_yes_or_no(cues: LexiconMatches, text: str, *, is_ordered: bool) -> bool:
    """Whether the answer is yes or no: an auxiliary verb or "whether" precedes question words."""
    main_clause = text.split("whether")[0].split(" if ")[0]
    is_open_question = re.search(r"\b(?:what|which|when|how)\b", main_clause)
    if _CONDITIONAL.search(text) and not is_open_question:
        return True
    question_word = _ASKS.search(text)
    auxiliary_offset = cues.first_offsets.get(("summary", "exists"))
    weight = cues.weight("summary", "exists")
    # Whether a value, a time or a fact is requested:
    if is_ordered or cues.weight("returns", "time") >= 2:
        asks_value = True
    else:
        aggregation = cues.best("summary", ("minimum", "maximum", "average", "sum"), 4)
        asks_value = bool(
            aggregation or cues.best("per") or cues.best("returns", _FACTS, 3)
        )
    if auxiliary_offset is None or (weight < 4 and asks_value):
        is_statement = _VERB.search(text) is not None
        return question_word is None and not asks_value and is_statement
    return question_word is None or auxiliary_offset < question_word.start()
