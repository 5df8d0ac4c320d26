"""From a question to typed queries without a model, in two dialects.

`ehrsql` reads the questions of FHIR-AgentBench, `everyday` those that people ask about a record.
Both share the lexer and the calendar.
"""
