"""The benchmark's own descriptions of its nine functions, read from its file `funcs_v1.json`.

Source: `data/medagentbench/funcs_v1.json` of stanfordmlgroup/MedAgentBench (Jiang et al., NEJM AI
2025), a JSON list of `{"name": "GET {api_base}/Condition", "description": …, "parameters": {…}}`.
Without it, the baseline sends archqa's own wording of the same functions.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.id_lists import list_ids
from archqa.errors import InputError
from archqa.tasks.files.json_node import JsonContent, JsonNode, parse_json
from archqa.tasks.files.mistakes import FileErrors
from archqa.tasks.files.source import Source, read_source
from archqa.tasks.pipeline import PipelineInputs

OWN_WORDING = (
    "The function descriptions are archqa's own wording "
    "(prompts/medagent_paper/v2/functions.json), "
    "not the benchmark's; --functions FILE sends those of its funcs_v1.json."
)

_FIX = (
    "A function file is the benchmark's funcs_v1.json: "
    '[{"name": "GET {api_base}/Condition", "description": "…", "parameters": {…}}, …].'
)
_NAME = re.compile(r"(?:GET|POST) \S+")


class FunctionFile(NamedTuple):
    """Function descriptions; `text` is the JSON that the benchmark puts in its prompt."""

    text: str
    sha256: str


def load_functions(path: Path) -> FunctionFile:
    """Read a function file. Raises `InputError` with every mistake of the file."""
    source = read_source(path.absolute())
    content = _parse(source)
    mistakes = FileErrors(source.path, _FIX)
    if content.value == []:
        mistakes.add("", "the list is empty; it should hold at least one function.")
        mistakes.raise_if_any()
    for function in content.entries(mistakes):
        _check_function(function)
    mistakes.raise_if_any()
    return FunctionFile(json.dumps(content.value), source.sha256)


def function_inputs(path: Path | None) -> PipelineInputs:
    """What a run says of its function descriptions. Raises `InputError` for a malformed file."""
    if path is None:
        return PipelineInputs(remarks=(OWN_WORDING,))
    return PipelineInputs(sha256={"functions": load_functions(path).sha256})


def _parse(source: Source) -> JsonContent:
    try:
        return parse_json(source.text, source.path)
    except InputError as error:
        raise InputError(source.path, error.mistakes, _FIX) from None


def _check_function(function: JsonNode) -> None:
    name = function.required("name")
    if name and not _NAME.fullmatch(name):
        function.add_error("name", "should be GET or POST, a blank and an address.")
    function.required("description")
    _check_parameters(function)


def _check_parameters(function: JsonNode) -> None:
    parameters = function.value("parameters")
    if not isinstance(parameters, dict):
        function.add_error("parameters", "is missing or no object; it should be a JSON schema.")
        return
    properties = parameters.get("properties")
    if not isinstance(properties, dict):
        function.add_error("parameters.properties", "is missing or no object.")
        return
    required = parameters.get("required", [])
    if not _is_list_of_texts(required):
        function.add_error("parameters.required", "should be a list of parameter names.")
        return
    undescribed = [name for name in required if name not in properties]
    if undescribed:
        names = list_ids(undescribed)
        function.add_error(
            "parameters.required", f"lists names that are not in properties: {names}."
        )


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
