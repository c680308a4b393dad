"""A model that plays a script: the fake for tests of any client, in Python or over the wire.

A script is a list of calls; each call is a list of steps. In Python a step is ``Say``, ``Think``, ``Call``,
``Hang``, ``Raise``, ``EndWithoutDone``, ``WaitFor`` or any emission; in JSON it is an object with exactly one
of these keys::

    {"text": "Hello", "deltas": 3}        prose, in that many deltas (default 1)
    {"thinking": "hm", "deltas": 2}       reasoning
    {"toolCall": {"name": "read", "input": {"path": "a.py"}, "id": "c1"}}
                                          a tool call; input defaults to {}, id to a number
    {"usage": {"input": 10, "output": 3, "cacheRead": 0, "cacheWrite": 0}}
    {"stop": "max_output"}                the stop reason; else "complete" or "tool_calls"
    {"error": {"kind": "http", "message": "busy", "status": 503}}
    {"hang": true}                        emits nothing more until it is cancelled
    {"raise": "message"}                  the stream breaks with a RuntimeError
    {"endWithoutDone": true}              the stream ends with no done emission
    {"waitFor": "name"}                   goes on when the gate of that name is set

A call that reaches its end yields stop and done by itself. Nothing here sleeps.
"""

from sidecar.llmgateway.scripted.model import (
    Call,
    EndWithoutDone,
    Hang,
    Raise,
    RecordedCall,
    Say,
    Script,
    ScriptedModel,
    Step,
    Think,
    WaitFor,
)
from sidecar.llmgateway.scripted.parse import model_from_json, script_from_json

__all__ = [
    "Call",
    "EndWithoutDone",
    "Hang",
    "Raise",
    "RecordedCall",
    "Say",
    "Script",
    "ScriptedModel",
    "Step",
    "Think",
    "WaitFor",
    "model_from_json",
    "script_from_json",
]
