"""Calls as the templates of models write them, between the marks that the markup reader finds. Pure.

They are JSON objects with a name and arguments, a list of them or one behind its name; functions, invocations
and keys in tags of their own; or sections between special tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from sidecar._internal.values import Value

CALL_LIST_MARK: Final = "[TOOL_CALLS]"

_FUNCTION: Final = re.compile(r"<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER: Final = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_INVOCATION: Final = re.compile(r"<invoke name=\"([^\">]+)\">(.*?)(?:</invoke>|\Z)", re.DOTALL)
_ARGUMENT: Final = re.compile(r"<parameter name=\"([^\">]+)\"[^>]*>\n?(.*?)\n?</parameter>", re.DOTALL)
_KEYED: Final = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>\n?(.*?)\n?</arg_value>", re.DOTALL)
_SECTION: Final = re.compile(
    r"<[|｜]tool[_▁]call[_▁]begin[|｜]>\s*(?:function<｜tool▁sep｜>)?(?:functions\.)?([\w.-]+?)(?::\d+)?\s*"
    r"(?:<\|tool_call_argument_begin\|>|<｜tool▁sep｜>)?\s*(?:```json)?\s*(\{.*?\})\s*(?:```)?\s*"
    r"<[|｜]tool[_▁]call[_▁]end[|｜]>",
    re.DOTALL,
)
"""A call between the special tokens of Kimi and DeepSeek."""

_NAMED: Final = re.compile(r"\s*([\w.-]+)\s*(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)


class MarkedCall(Value):
    """A call in the text; *arguments* is JSON text."""

    name: str
    arguments: str


def read_calls(text: str) -> tuple[MarkedCall, ...]:
    """Return the calls in *text*, the inside of a mark; none when it is not written as calls.

    >>> read_calls('{"name": "ls", "arguments": {"path": "."}}')
    (MarkedCall(name='ls', arguments='{"path": "."}'),)
    >>> read_calls("<function=ls><parameter=path>\\n.\\n</parameter></function>")
    (MarkedCall(name='ls', arguments='{"path": "."}'),)
    >>> read_calls('<invoke name="ls"><parameter name="path">.</parameter></invoke>')
    (MarkedCall(name='ls', arguments='{"path": "."}'),)
    """
    if functions := _FUNCTION.findall(text):
        return tuple(
            MarkedCall(
                name,
                inside.strip()
                if inside.lstrip().startswith("{")
                else json.dumps(dict(_PARAMETER.findall(inside))),
            )
            for name, inside in functions
        )
    if invocations := _INVOCATION.findall(text):
        return tuple(
            MarkedCall(name, json.dumps(dict(_ARGUMENT.findall(inside)))) for name, inside in invocations
        )
    if keyed := _KEYED.findall(text):
        return (MarkedCall(text.partition("<")[0].strip(), json.dumps(dict(keyed))),)
    if sections := _SECTION.findall(text):
        return tuple(MarkedCall(name, arguments) for name, arguments in sections)
    calls: list[MarkedCall] = []
    try:
        for value in find_calls(text):
            name, arguments = value["name"], value.get("arguments", value.get("parameters", {}))
            calls.append(MarkedCall(name, arguments if isinstance(arguments, str) else json.dumps(arguments)))
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return ()
    return tuple(calls)


def find_calls(text: str) -> Iterator[Any]:
    """Yield the JSON objects of calls: one, a list of them, or each behind its name.

    >>> list(find_calls('ls[ARGS]{"path": "."}'))
    [{'name': 'ls', 'arguments': {'path': '.'}}]
    """
    if text.lstrip().startswith(("{", "[")):
        value = json.loads(text)
        yield from value if isinstance(value, list) else (value,)
        return
    rest, decoder = text, json.JSONDecoder()
    while rest.strip():
        named = _NAMED.match(rest.replace(CALL_LIST_MARK, "", 1))
        if named is None:
            raise ValueError("a call begins with its name")
        arguments, end = decoder.raw_decode(named[2])
        yield {"name": named[1], "arguments": arguments}
        rest = named[2][end:]
