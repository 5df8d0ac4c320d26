"""Questions in free words as paraphrases of questions that the everyday grammar reads."""
