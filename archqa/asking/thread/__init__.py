"""A thread of questions: follow-up questions are understood by what was asked and answered before.

thread = archqa.Thread()
archqa.ask("Is she on metformin?", patient="1b7c7", record="mimic.db", session=thread)
archqa.ask("What dose?", session=thread).understood  # "What is the dose of metformin?"
"""

from archqa.asking.thread.turns import Place, Thread, Turn

__all__ = ["Place", "Thread", "Turn"]
