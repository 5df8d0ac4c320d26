"""MedAgentBench's conversation with a model and with typed tools."""
