"""What a loader made of a file beyond reading it, in sentences for people and for `run.json`."""

from archqa.tasks.files.mistakes import printable

_MAX_NAMED_CASES = 20


class LoadRemarks:
    """Which notes were split into sentences: the first twenty by case, the others by number.

    A cohort is read again and again, so that little is kept, and a case counts once while
    `texts` has not been called.
    """

    def __init__(self) -> None:
        self._sentence_counts: dict[str, int] = {}
        self._unnamed_count = 0

    def add_split(self, case_id: str, sentence_count: int) -> None:
        """Record that the sentences of a case were made from its note."""
        if case_id in self._sentence_counts:
            return
        if len(self._sentence_counts) < _MAX_NAMED_CASES:
            self._sentence_counts[case_id] = sentence_count
        else:
            self._unnamed_count += 1

    def texts(self) -> tuple[str, ...]:
        """The remarks so far."""
        remarks = []
        for case_id, count in self._sentence_counts.items():
            sentences = "1 sentence" if count == 1 else f"{count} sentences"
            remarks.append(f"case {printable(case_id)}: {sentences} made from note_excerpt")
        if self._unnamed_count:
            remarks.append(
                f"sentences of {self._unnamed_count} more cases were made from note_excerpt"
            )
        return tuple(remarks)
