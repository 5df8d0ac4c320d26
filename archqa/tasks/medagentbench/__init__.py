"""MedAgentBench: instructions of physicians carried out on a FHIR server."""

NAME = "medagentbench"
