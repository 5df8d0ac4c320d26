"""MedAgentBench's conversation with a model, with typed tools, and by a fixed policy."""
