"""Words that the grammar does not know and that carry nothing in a question.

They stand in `data/harmless_words.tsv`, read by a person one by one: words of the training
questions without which the grammar reads the question right. No other word is ever left out.
"""

from archqa.query.paraphrase.tables import read_words


def is_harmless(word: str) -> bool:
    """Whether a question without the word asks the same."""
    return word in read_words("harmless")
