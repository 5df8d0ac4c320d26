"""What a question is about: cue words and names found are weighed against each other."""

import re
from collections.abc import Iterable
from typing import Literal

from archqa.query.grammar.lexicon import LexiconMatches
from archqa.query.grammar.names import Candidate
from archqa.query.grammar.visits import FoundVisit
from archqa.query.grammar.vocabulary import NameKind
from archqa.query.model import RowKind

Subject = RowKind | Literal["emergency"]

# A name of this kind speaks for these rows.
_SPEAKS_FOR: dict[NameKind, Subject] = {
    "lab": "lab",
    "vital": "vital",
    "output": "output",
    "microbiology_test": "microbiology_test",
    "organism": "microbiology_test",
    "antibiotic": "susceptibility",
    "specimen": "microbiology_test",
    "medication": "medication",
    "procedure": "procedure",
    "diagnosis": "diagnosis",
    "care_unit": "care_unit",
    "route": "medication",
    "admission_source": "hospital_visit",
}
# Their names are everyday words ("urine", "medicine"): without a cue word they say little.
_NEEDS_CUE = frozenset(
    {"microbiology_test", "care_unit", "output", "susceptibility", "hospital_visit"}
)
_ENOUGH = 1.5
_STAYS: tuple[Subject, ...] = ("hospital_visit", "icu_stay", "emergency")


def classify_subject(
    cues: LexiconMatches,
    candidates: Iterable[Candidate],
    visits: list[FoundVisit],
    *,
    place: str | None,
    has_route: bool,
) -> Subject | None:
    """The kind of rows that is asked about; None if nothing in the question says."""
    weights = cues.values("what")
    best: dict[str, float] = {}
    candidates = list(candidates)
    for each in candidates:
        rows = _SPEAKS_FOR[each.kind]
        needs = rows in _NEEDS_CUE and not _is_clear(each, candidates)
        counts = each.weight / 2 if needs and weights.get(rows, 0.0) < 2.5 else each.weight
        counts += _leaning(each, candidates)
        best[rows] = max(best.get(rows, 0.0), counts)
    scores = {rows: weights.get(rows, 0.0) + best.get(rows, 0.0) for rows in {*weights, *best}}
    if place:
        scores[place] = scores.get(place, 0.0) + 3
    if has_route:
        scores["medication"] = scores.get("medication", 0.0) + 1.5
    if "susceptibility" in scores and weights.get("susceptibility", 0.0) < 5:
        del scores["susceptibility"]
    return _judged(scores, weights, visits)


def _leaning(each: Candidate, candidates: list[Candidate]) -> float:
    """Charted items repeat the names of labs: the bare name means the lab. Everyday words mean the vital sign."""
    if any(
        other.words > each.words and other.start <= each.start and each.end <= other.end
        for other in candidates
    ):
        return -1.5
    if each.kind == "vital":
        return 1.0 if each.said == "synonym" else 0.0
    rival = any(
        other.kind == "vital" and other.said == "exact" and other.start == each.start
        for other in candidates
    )
    return (1.0 if each.said == "exact" else 1.5) if each.kind == "lab" and rival else 0.0


def _is_clear(one: Candidate, candidates: list[Candidate]) -> bool:
    """Whether a name that mostly stands beside a cue word is clear by itself: "foley", "MICU", "discharge lounge"."""
    if one.kind == "care_unit":
        return "Emergency" not in one.names[0] and (one.words > 1 or one.said == "synonym")
    if one.kind == "admission_source":
        return one.words > 1
    if one.kind in {"specimen", "microbiology_test"}:
        return one.words > 1 and one.has_culture_word
    return one.kind == "output" and not any(
        other.kind != one.kind and other.overlaps(one.start, one.end) for other in candidates
    )


def _judged(
    scores: dict[str, float], weights: dict[str, float], visits: list[FoundVisit]
) -> Subject | None:
    named = max((score for rows, score in scores.items() if rows not in _STAYS), default=0.0)
    for stay in ("hospital_visit", "icu_stay"):
        # "Potassium when he was admitted" asks for a potassium.
        if named >= 3.5 and stay in scores:
            scores[stay] *= 0.6
    for stay in {"icu_stay" if visit.visit.kind == "icu" else "hospital_visit" for visit in visits}:
        if named < 2.5:
            scores[stay] = scores.get(stay, 0.0) + (2.5 if stay == "icu_stay" else 2.0)
    if "icu_stay" in scores and "hospital_visit" in scores and weights.get("icu_stay", 0.0) > 0:
        scores["icu_stay"] += 1.0
    if weights.get("emergency", 0.0) and scores.get("hospital_visit", 0.0):
        scores["emergency"] += 1.0
    found = max(scores, key=lambda rows: scores[rows], default=None)
    return found if found and scores[found] >= _ENOUGH else None  # type: ignore[return-value]


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


def asks_yes_or_no(cues: LexiconMatches, text: str, *, is_ordered: bool) -> bool:
    """Whether a yes or a no answers it: an auxiliary verb comes before any question word, or "whether" does."""
    if re.search(
        r"\b(?:whether|if)\b(?! multiple| there are multiple| more than| several| any)", text
    ) and not re.search(r"\b(?:what|which|when|how)\b", text.split("whether")[0].split(" if ")[0]):
        return True
    asks = _ASKS.search(text)
    said = cues.at.get(("summary", "exists"))
    weight = cues.weight("summary", "exists")
    if said is None or (weight < 4 and _wants_figure(cues, is_ordered=is_ordered)):
        return (
            asks is None
            and not _wants_figure(cues, is_ordered=is_ordered)
            and not _is_noun_phrase(text)
        )
    return asks is None or said < asks.start()


def _wants_figure(cues: LexiconMatches, *, is_ordered: bool) -> bool:
    """Whether a value, a time or a fact is asked for: "the lowest ever" is no yes or no."""
    figure = cues.best("summary", ("minimum", "maximum", "average", "sum"), 4) or cues.best("per")
    return bool(
        is_ordered
        or figure
        or cues.weight("returns", "time") >= 2
        or cues.best("returns", _FACTS, 3)
    )


def _is_noun_phrase(text: str) -> bool:
    """No verb: "last creatinine", "length of the first ICU stay"."""
    verbs = (
        r"\b(?:is|are|was|were|has|have|had|did|does|do|been|received|prescribed|undergone|underwent|got|given|visited|"
        r"diagnosed|done|checked|drawn|sent|performed|ordered|tested|administered|started|admitted|hospitali[sz]ed|seen|"
        r"ever|any)\b"
    )
    return re.search(verbs, text) is None
