"""Runs on many machines: Ray starts the workers and transports the cases.

driver         this process: hands out the cases, writes the run folder, replaces workers that die
worker         one or more a node: runs the pipeline on several cases at once
shared_limits  one actor on the driver's node: rate limits, budget, requests in flight
"""
