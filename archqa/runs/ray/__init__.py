"""A run on many machines: Ray starts the workers and carries the cases; the agents know nothing of it.

driver   this process: deals the cases out, writes the run folder, sees who dies      (driver, waiting)
workers  one or more a node: each takes cases through the pipeline, many at once      (worker)
limits   one actor beside the driver: the pace, the budget, who is asking what        (limits)
"""
