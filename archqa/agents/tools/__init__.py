"""Tools that agents may call: the tool interface, a calculator, and a sandbox for code that a model
wrote.
"""
