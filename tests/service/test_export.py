"""A conversation as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sidecar.conductor.records import SessionInfo
from sidecar.protocol.messages import NodeView
from sidecar.service.export import export_text

INFO = SessionInfo(
    sid="s1",
    cwd="/p",
    model="offline-1",
    engine="windowBudget",
    created_at=1,
    updated_at=2,
    title="Parser",
)


def exported(*given: Any) -> str:
    """Return the whole text of an export."""
    return "".join(export_text(*given))


def node(node_id: str, role: str, *blocks: Mapping[str, Any]) -> NodeView:
    return NodeView(id=node_id, parent=None, role=role, blocks=blocks, created_at=7)


TALK = (
    node("n1", "user", {"kind": "text", "text": "read it\n"}),
    node(
        "n2",
        "assistant",
        {"kind": "thinking", "text": "first\nthen"},
        {"kind": "text", "text": "Looking."},
        {"kind": "tool_call", "id": "c1", "name": "read", "input": {"path": "a.md"}},
    ),
    node("n3", "tool", {"kind": "tool_result", "callId": "c1", "output": "```py\nx\n```\n"}),
    node("n4", "assistant", {"kind": "text", "text": "Done."}),
    node("n5", "assistant", {"kind": "image", "mediaType": "image/png", "dataBase64": "AA=="}),
)

MARKDOWN = """\
# Parser

## You

read it

## Assistant

> first
> then

Looking.

`read`

```json
{
  "path": "a.md"
}
```

## Tools

````
```py
x
```
````

## Assistant

Done.

(image)
"""


def test_markdown_is_for_people() -> None:
    assert exported(INFO, TALK, "markdown") == MARKDOWN


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        pytest.param({"kind": "tool_result", "output": ""}, "(nothing)", id="an empty result"),
        pytest.param({"kind": "tool_result", "output": {"a": 1}}, '```\n{\n  "a": 1\n}\n```', id="no text"),
        pytest.param({"kind": "tool_result", "output": "a ``` b"}, "```\na ``` b\n```", id="ticks in a line"),
        pytest.param({"kind": "text", "text": "  "}, None, id="blank prose is left out"),
    ],
)
def test_a_block_of_markdown(block: Mapping[str, Any], shown: str | None) -> None:
    body = exported(INFO, [node("n", "tool", block)], "markdown")
    assert body == "# Parser\n\n## Tools\n" + (f"\n{shown}\n" if shown is not None else "")


def test_a_line_a_node() -> None:
    found = [json.loads(line) for line in exported(INFO, TALK, "jsonl").splitlines()]
    assert [each["id"] for each in found] == ["n1", "n2", "n3", "n4", "n5"]
    assert found[0] == {
        "id": "n1",
        "parent": None,
        "role": "user",
        "blocks": [{"kind": "text", "text": "read it\n"}],
        "createdAt": 7,
    }


def test_all_in_one_object() -> None:
    found = json.loads(exported(INFO, TALK[:1], "json"))
    assert {key: value for key, value in found.items() if key != "nodes"} == {
        "sid": "s1",
        "title": "Parser",
        "cwd": "/p",
        "model": "offline-1",
        "createdAt": 1,
        "updatedAt": 2,
    }
    assert len(found["nodes"]) == 1
