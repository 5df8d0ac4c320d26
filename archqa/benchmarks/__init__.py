"""Benchmarks: their cases, their keys, their submission formats."""

from archqa.benchmarks.archehr import dump_json
from archqa.benchmarks.base import Benchmark, CaseFile, Ended, KeyFile
from archqa.benchmarks.catalogue import find, find_key, load_cases, load_key, names, recognise
from archqa.benchmarks.clinician_answers import clinician_sentences, with_answers
from archqa.benchmarks.pair import check_pair

__all__ = [
    "Benchmark",
    "CaseFile",
    "Ended",
    "KeyFile",
    "check_pair",
    "clinician_sentences",
    "dump_json",
    "find",
    "find_key",
    "load_cases",
    "load_key",
    "names",
    "recognise",
    "with_answers",
]
