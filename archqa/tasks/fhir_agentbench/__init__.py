"""FHIR-AgentBench: questions about one patient's FHIR resources."""

NAME = "fhir-agentbench"
