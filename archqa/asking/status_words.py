"""How the status of an answer is said to people."""

from archqa.asking.answer import Status

STATUS_WORDS = {
    Status.ANSWERED: "Answered",
    Status.NOT_FOUND: "Not found",
    Status.NOT_UNDERSTOOD: "Not understood",
    Status.DECLINED: "Declined: a judgement or a prediction is not made",
}
