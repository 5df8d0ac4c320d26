"""The form of a short question: whether yes or no answers it, and what turns its meaning."""

import re
from typing import NamedTuple

from archqa.asking.statement_terms import find_terms

MAX_TELEGRAPHIC_WORDS = 7

_LEAD_IN = re.compile(
    r"^(?:(?:so|and|but|ok(?=,)|okay(?=,)|well|also|please|hi|hello|hey|doc|doctor|dr|sorry|just|then|now|thanks"
    r"|quick question|question)\b[\s,.:;-]*)+",
    re.IGNORECASE,
)
_AUXILIARY = (
    r"(?:is|are|was|were|am|do|does|did|has|have|had|can|could|may|might|will|would|shall|should|must"
    r"|ain't)(?:n['’]?t)?|cannot"
)
_INVERTED = re.compile(rf"^(?:{_AUXILIARY})\s+\S", re.IGNORECASE)
_LATER_INVERTED = re.compile(rf"[,;:–-]\s+(?:{_AUXILIARY})\s+\w+", re.IGNORECASE)
_QUESTION_WORD = re.compile(
    r"\b(?:what|what's|whats|when|where|why|who|whose|whom|which|how)\b", re.IGNORECASE
)
_ASKS_FOR_WORDS = re.compile(
    r"^(?:can|could|would|will|do|did|may|shall)\s+(?:you|u|i|we|someone|anyone|anybody)\s+(?:please\s+)?"
    r"(?:tell|say|list|name|give|explain|describe|summari[sz]e|show|remind|know|get|have|find)\b"
    r"(?!\s+(?:a|an|any)\b)",
    re.IGNORECASE,
)
_EXISTENCE = re.compile(
    r"^(?:any|ever|still|anyone|anybody|anything|no|not|first time|needs?|on|hx|hx of|h/o|history of"
    r"|allowed|able|ok|okay|safe|supposed|allergic|due for)\b",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(
    r"\b(?:dose|doses|dosage|dosing|mg|level|levels|results?|date|dates|plan|plans|reasons?|cause|causes"
    r"|name|names|value|values|count|counts|number|numbers|size|type|kind|stage|grade|side|score"
    r"|frequency|duration|times?|age|location|site|sites|findings?|course|schedule|strength"
    r"|rate|route|details?|history|because|outcome|treatment|onset|total|amount|units|goal|target"
    r"|percent|per|class|dimensions?|length|yrs|arrival|ethanol level|sugar|weeks|days|months|years|year|titer|versus|vs|peak|highest|lowest|last|latest|next)\b",
    re.IGNORECASE,
)
_STATE_AT_END = re.compile(
    r"\b(?:given|done|sent|started|stopped|removed|healed|placed|ordered|changed|continued|needed"
    r"|required|involved|enlarged|infected|broken|palpable|visible|stable|tender|sore|swollen|loose"
    r"|normal|abnormal|clear|intact|ok|okay|positive|negative|sensitive|resistant|elevated|dilated"
    r"|working|helping|married|employed|vaccinated|pregnant|diabetic|febrile|suicidal|constipated"
    r"|intubated|extubated|sedated|ambulatory|oriented|used|checked|tested|drained|ruled out)$",
    re.IGNORECASE,
)
_STATE_VERB = re.compile(
    r"^(?:\w+\s+)?(?:walks|lives|drinks|smokes|uses|takes|eats|sleeps|drives|works|needs|has|wears"
    r"|snores|speaks|hears|sees)\b",
    re.IGNORECASE,
)
_IN_FAMILY = re.compile(r"\bin (?:the|his|her|their|my|our) family$", re.IGNORECASE)
_ALTERNATIVE = re.compile(
    r"\b(?:(?:the )?(left|up|benign|viral|acute|inpatient|sitting|boy|open|partial|alive|better|male"
    r"|type (?:1|one)|upper|high|positive|new|before|home|systolic|with)\b.*\bor\b.*\b(?:right|down"
    r"|malignant|cancer\w*|bacterial|chronic|outpatient|standing|girl|closed|laparoscopic|full|dead|worse|female"
    r"|type (?:2|two)|lower|low|negative|old|after|hospital|diastolic|without))\b",
    re.IGNORECASE,
)
_OR_DETERMINER = re.compile(
    r"\b(?:a|an|the)\s+\w+(?:\s+\w+)?\s+or\s+(?:a|an|the)\s+\w+", re.IGNORECASE
)


def is_yes_no_question(question: str) -> bool:
    """Whether yes or no would answer; a question that may ask for more ("job?") is none."""
    text = _bare(question)
    if not text or _asks_for_choice(text):
        return False
    asked_word = _QUESTION_WORD.search(text)
    if _INVERTED.match(text):
        return not _asks_for_words(text)
    later = _LATER_INVERTED.search(text)
    if later and not asked_word:
        return True
    if asked_word and not _joins_later(text, asked_word.start()):
        return False
    return _is_telegraphic(text)


def _bare(question: str) -> str:
    text = " ".join(question.split()).strip(" \"'“”¿")
    return _LEAD_IN.sub("", text).rstrip(" ?.!\"'”")


def _asks_for_words(text: str) -> bool:
    """Whether a question in inverted order asks to be told something ("Can you say when …")."""
    if _ASKS_FOR_WORDS.match(text):
        return True
    match = _QUESTION_WORD.search(text)
    return match is not None and match.start() > 0 and _is_embedded(text, match.start())


def _is_embedded(text: str, start: int) -> bool:
    """Whether the word at `start` asks ("is it known when"), not merely joins ("did he, when he")."""
    before = text[:start].rstrip()
    word = text[start:].split()[0].lower()
    if word in {"when", "where", "who", "which", "whose"}:
        return (
            re.search(r"\b(?:known|stated|documented|clear|say|tell|mentioned)$", before)
            is not None
        )
    return False


def _joins_later(text: str, start: int) -> bool:
    """Whether "when" or "where" only says of what time or place ("Any pain when he walks")."""
    joins = re.match(
        r"(?:when|where|who)\s+(?:he|she|they|it|we|i|my|the|his|her|you)\b", text[start:], re.I
    )
    names_nothing = re.match(r"any(?:one|body)?\s+(?:idea|clue|word|news|know|reason)", text, re.I)
    return joins is not None and start > 0 and names_nothing is None


def _asks_for_choice(text: str) -> bool:
    if " or " not in text.lower():
        return False
    return bool(_ALTERNATIVE.search(text) or _OR_DETERMINER.search(text))


def _is_telegraphic(text: str) -> bool:
    """Whether a few words name something that is there or not."""
    if _EXISTENCE.match(text):
        return not re.match(r"(?:on|no|not)\s+\w*$", text.lower()) or " " in text
    if len(text.split()) > MAX_TELEGRAPHIC_WORDS:
        return False
    if re.search(r"\bnot done$|\b(?:reason|dose|when|why)\b", text, re.IGNORECASE):
        return False
    if _STATE_AT_END.search(text) or _STATE_VERB.match(text) or _IN_FAMILY.search(text):
        return True
    if _ATTRIBUTE.search(text):
        return False
    return any(mention.term.kind in "FHQ" for mention in find_terms(text))


class QuestionForm(NamedTuple):
    """What turns the meaning of a yes/no question's answer."""

    asks_family: bool
    asks_past: bool
    asks_now: bool
    asks_ended: bool
    asks_permission: bool
    asks_plan: bool
    asks_cause: bool
    asks_deed: bool
    asks_negative: bool
    asks_comparison: bool
    is_alternative: bool
    is_telegraphic: bool


_FLAGS = {
    "asks_family": r"\b(?:in|of) (?:the|his|her|their|my|our|her own|his own)(?: \w+)? family\b"
    r"|\bfamily (?:history|hx|member)|\bfhx?\b|\bfamily\?*$|\brelatives?\b|\bparents?\b|\bsiblings?\b|\brun in\b"
    r"|\b(?:his|her) (?:own )?(?:\w+ )?(?:mother|father|mom|mum|dad|brothers?|sisters?|son|daughter|aunt|uncle|cousin|child|children|kids"
    r"|wife|husband)\b|\banyone else\b|\banybody else\b|\bbrothers or sisters\b|\bkin\b",
    "asks_past": r"\b(?:ever|history|hx|h/o|previous|previously|prior|past|before|earlier|already|had)\b",
    "asks_now": r"\b(?:still|now|currently|today|tonight|yet|present|current|any ?more|left)\b",
    "asks_ended": r"\b(?:stopp?(?:ed)?|quit|quits|gone|resolved?|over with|come off|came off|no longer"
    r"|discontinued|out|removed|off|go away|went away|cured|finished|completed|skip|give up|taken out"
    r"|closed|cut out)\b",
    "asks_permission": r"^(?:can|may|could|should|shall|must)\b|\b(?:allowed|permitted|ok to|okay to|supposed to"
    r"|cleared|restrict\w*)\b",
    "asks_plan": r"^(?:will|shall|would)\b|\b(?:going to|planned|plan|scheduled|coming|be having|need|needs|have to)\b",
    "asks_cause": r"\b(?:because|caused?|causing|coming from|come from|due to|related to|explain\w*|blame|from the"
    r"|result of|reason|linked|contribut\w*|trigger\w*|bring .* on|brought .* on|by the|worse|make|makes)\b",
    "asks_deed": r"\b(?:tested|checked|screened|examined|measured|investigated|looked at|evaluated|worked up"
    r"|sent|drawn|cultured|ordered|done|performed|discussed|mentioned|given a|asked|told|warned|exam)\b",
    "asks_negative": r"\b(?:negative|free|without|non\w+|un\w+able|absent|rule[ds]? out|lack\w*|fail\w*|refus\w*"
    r"|declin\w*|miss(?:ed|ing)?|under)\b",
    "asks_comparison": r"\b(?:more|less|worse|bigger|smaller|higher|lower|grown|shrunk|shrinking|same|different"
    r"|first|second|both|only|enough|too much|all|every|each|always|daily|alone|other|another|again|new|bad|badly|high|actually"
    r"|last|least|most|by age|on purpose)\b",
    "is_alternative": r"\bor\b",
}


def question_form(question: str) -> QuestionForm:
    """Return the form of a question."""
    text = _bare(question)
    flags = {
        name: re.search(pattern, text, re.IGNORECASE) is not None
        for name, pattern in _FLAGS.items()
    }
    return QuestionForm(is_telegraphic=_INVERTED.match(text) is None, **flags)
