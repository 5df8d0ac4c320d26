"""Whether a question asks for a judgement or a prediction, which a record does not hold."""

import re

_LEAD_IN = re.compile(r"^(?:(?:so|and|but|well|also|please|doctor|doc)\b[\s,]*)+", re.IGNORECASE)
_PERSON = (
    r"(?:i|we|you|he|she|they|it|this|that|(?:my|his|her|our|the|their)\s+\w+(?:\s+\w+)?|grand\w+|mom|mum|dad"
    r"|patient|pt)"
)
_PATTERNS = (
    # Safety and advice.
    r"\b(?:is|are|was|would|will)\s+(?:it|this|that|these|she|he|\w+)\s+(?:\w+\s+)?safe\b|^safe\b|\bsafe to\b|\bsafe for\b",
    rf"^should(?:n['’]?t)?\s+{_PERSON}\b|^ought\s+{_PERSON}\b|\b(?:think|say|if) {_PERSON} should\b",
    r"\b(?:would|do) you (?:recommend|advise|suggest|think|believe|agree|consider)\b|\bin your opinion\b",
    r"\byour (?:opinion|view|advice|impression|assessment)\b|\bwould you\b|\bwhat do you\b",
    r"\b(?:is|would|was|were) it (?:\w+ )?(?:better|best|wise|worth\w*|a good idea|reasonable|advisable|sensible|dangerous"
    r"|risky|appropriate|right|wrong|ok|okay|fine)\b(?=\s+(?:to|for|if|that)\b|$)",
    r"\b(?:better|best|right|correct|appropriate|wrong|optimal|ideal) (?:treatment|therapy|drug|medication|medicine|choice"
    r"|option|dose|decision|approach|management|diagnosis|thing to do)\b",
    r"\bdo(?:es)? (?:we|i|they|he|she) (?:need|have) to worry\b|\b(?:worried|worry|concerned|scared)\b.*\?|\bcause for concern\b",
    # Grading.
    r"\bunder (?:good |better )?control\b|\bwell[- ](?:controlled|managed|treated)\b|\bcontrolled\b",
    r"^(?:is|are|was) (?:\w+ ){0,4}?(?:serious|dangerous|life[- ]threatening|severe|fatal|deadly|worrisome|worrying|bad)\b"
    r"(?=[\s?.!]*$)",
    r"\bhow (?:serious|dangerous|worried|likely|risky|well controlled)\b"
    r"|\bhow bad (?:is|was) (?:it|this|that|he|she)\b",
    r"\b(?:good|bad|poor|better) (?:prognosis|outlook|news)\b|\bprognosis\b|\boutlook\b|\blife expectancy\b",
    # Prediction.
    r"\b(?:chances?|odds|likelihood|probability)\b|\bhow likely\b|\b(?:is|are) (?:\w+ ){1,3}likely to\b",
    rf"^(?:will|won['’]?t)\s+{_PERSON}\b",
    rf"\b(?:is|are)\s+{_PERSON}\s+(?:ever\s+)?(?:going to|gonna)\s+(?:die|live|make|be (?:ok|okay|fine|alright|all right)|get (?:better|worse)"
    r"|recover|survive|need|come back|walk|relapse)\b",
    rf"\bhow (?:long|much time) (?:does|do|has|have|will) {_PERSON} (?:have|got|live|survive)\b(?: left| to live)?[\s?.!]*$",
    r"\b(?:long|time|months|years) (?:to live|left to live)\b|\bwhat (?:will|would) happen\b",
    # Speculation.
    r"^(?:could|might)\s+(?:it|this|that|these|those|she|he|they|the \w+(?: \w+)?)\s+(?:\w+ )?(?:be|have|turn|become|mean)\b",
    r"\bdo you think\b|\bdoes (?:it|this|that) mean\b|\bis (?:it|this|that) because\b|\bwhose fault\b|\bmalpractice\b",
    r"\b(?:did|are|were) (?:they|we|the doctors?|the nurses?|the team) (?:do|doing|make) (?:the right|something wrong|everything|a mistake|enough)",
)
_JUDGEMENT = re.compile("|".join(f"(?:{pattern})" for pattern in _PATTERNS), re.IGNORECASE)


def is_judgement(question: str) -> bool:
    """Whether a question asks for advice, a grading or a prediction ("Is it safe to …?").

    A note may still state what its author judged ("may drive after two weeks"), so the caller
    decides whether to decline or to show what the note states.
    """
    text = " ".join(question.split())
    return _JUDGEMENT.search(_LEAD_IN.sub("", text)) is not None
