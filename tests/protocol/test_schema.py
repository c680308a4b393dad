"""The protocol written down: what is checked in is what the code says."""

from __future__ import annotations

import copy
import inspect
import json
from dataclasses import dataclass
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

import sidecar.protocol
from sidecar._internal.errors import SidecarError
from sidecar.cli import main
from sidecar.protocol.errors import ERROR_KINDS, acp_code, lsp_code
from sidecar.protocol.handshake import METHOD_NAMES, SCHEMA_HASH
from sidecar.protocol.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, EVENTS, METHODS, NOTIFICATIONS
from sidecar.protocol.schema import (
    FILE_NAMES,
    Schema,
    object_schema,
    protocol_shapes,
    schema_document,
    schema_hash,
    schema_text,
    without_prose,
)

REFERENCE = Path(inspect.getfile(sidecar.protocol)).parent / "REFERENCE.md"
STAYS_INSIDE = {
    "fetchFailed",
    "bufferOutOfSync",
    "notPermitted",
    "toolServerFailed",
    "clientGone",
    "clientRefused",
    "editorSilent",
}
"""Kinds of errors that answer no request: a tool's reply to the model, a notice, a client that is gone."""


def test_the_readme_leads_to_the_reference() -> None:
    root = Path(__file__).parents[2]
    assert f"({REFERENCE.relative_to(root).as_posix()})" in (root / "README.md").read_text(encoding="utf-8")


def test_the_hash_of_the_handshake_is_that_of_the_schema() -> None:
    """A protocol that changes says so: put this hash into ``sidecar/protocol/handshake.py``."""
    assert schema_hash() == SCHEMA_HASH


def test_the_hash_ignores_prose_and_notices_a_field() -> None:
    document = schema_document()
    reworded = copy.deepcopy(document)
    reworded["methods"]["sidecar/status"]["doc"] = "Other words."
    reworded["$defs"]["SidParams"]["description"] = "Other words."
    reworded["errors"]["busy"]["doc"] = "Other words."
    assert without_prose(reworded) == without_prose(document) != document
    changed = copy.deepcopy(document)
    changed["$defs"]["SidParams"]["properties"]["sid"] = {"type": "integer"}
    assert without_prose(changed) != without_prose(document)


def test_the_methods_of_the_handshake_are_those_of_the_table() -> None:
    """Put the table's names into ``sidecar/protocol/handshake.py``."""
    assert tuple(METHODS) == METHOD_NAMES


def test_the_json_schema_is_one() -> None:
    document = json.loads(schema_text("jsonschema"))
    jsonschema.Draft202012Validator.check_schema(document)
    assert set(document["$defs"]) == set(protocol_shapes())
    assert set(document["methods"]) == set(METHODS)


@pytest.mark.parametrize("form", FILE_NAMES)
def test_every_message_is_in_every_form(form: str) -> None:
    text = schema_text(form)
    for name in (*METHODS, *CLIENT_REQUESTS, *CLIENT_NOTIFICATIONS, *NOTIFICATIONS, *EVENTS):
        assert f'"{name}"' in text or f"`{name}`" in text, name


def test_every_typescript_name_that_is_used_is_declared() -> None:
    lines = schema_text("ts").splitlines()
    declared = {line.split()[2] for line in lines if line.startswith("export interface")}
    maps = {"Methods", "ClientRequests", "ClientNotifications", "Notifications", "EventData"}
    assert declared == set(protocol_shapes()) | maps


def test_the_schema_has_the_names_of_the_face() -> None:
    methods = json.loads(schema_text("jsonschema", "acp"))["methods"]
    assert set(methods) == {f"_{name}" for name in METHODS}
    assert '"_sidecar/turn/start"' in schema_text("ts", "acp")


def test_a_row_says_what_it_is_in_a_sentence() -> None:
    rows = [(row.name, row.doc, row.since) for row in (*METHODS.values(), *CLIENT_REQUESTS.values())]
    notices = (*NOTIFICATIONS.values(), *CLIENT_NOTIFICATIONS.values())
    for name, doc, since in (*rows, *((row.name, row.doc, row.since) for row in notices)):
        assert doc.endswith("."), name
        assert since == 1, name


def test_every_request_of_a_session_names_it() -> None:
    """The order of requests is kept by session: without one there would be none to keep."""
    for row in METHODS.values():
        if row.scope != "daemon":
            assert "sid" in protocol_shapes()[row.params.__name__]["properties"], row.name


def all_errors(error: type[SidecarError] = SidecarError) -> set[type[SidecarError]]:
    return {error}.union(*map(all_errors, error.__subclasses__()))


def test_every_kind_of_error_has_its_codes() -> None:
    import sidecar.boot
    import sidecar.commands.copy_sessions
    import sidecar.server  # noqa: F401  # their errors are looked for

    kinds = {error.kind for error in all_errors() if error.__module__.startswith("sidecar.")}
    assert kinds - set(ERROR_KINDS) - STAYS_INSIDE == set()
    for error in all_errors():
        if error.kind in ERROR_KINDS and error.__module__.startswith("sidecar."):
            assert error.retryable == ERROR_KINDS[error.kind].retryable, error


@pytest.mark.parametrize(
    ("kind", "lsp", "acp"),
    [
        ("notInitialized", -32002, -32600),
        ("sessionNotFound", -32803, -32002),
        ("headMoved", -32801, -32600),
        ("overloaded", -32803, -32001),
        ("wouldExceedWindow", -32803, -32603),
        ("authRequired", -32803, -32000),
        ("cancelled", -32800, -32800),
        ("unheardOf", -32803, -32603),
    ],
)
def test_a_kind_has_a_code_on_either_face(kind: str, lsp: int, acp: int) -> None:
    assert (lsp_code(kind), acp_code(kind)) == (lsp, acp)


def test_the_command_prints_one_form_and_writes_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "--format", "ts"]) == 0
    assert capsys.readouterr().out == schema_text("ts")
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == schema_text("jsonschema")
    assert main(["schema", "--out", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(FILE_NAMES.values())
    assert main(["schema", "--format", "markdown", "--out", str(tmp_path / "one")]) == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["REFERENCE.md"]
    (tmp_path / "file").write_text("")
    assert main(["schema", "--out", str(tmp_path / "file")]) == 1
    assert "File exists" in capsys.readouterr().err


@dataclass
class _Members:
    """A thing."""

    wanted: int
    to_word: str = "me"
    nothing: str | None = None


@pytest.mark.parametrize(
    ("are_sent_by_us", "required", "word"),
    [
        (True, ["wanted", "toWord"], {"type": "string"}),
        (False, ["wanted"], {"type": "string", "default": "me"}),
    ],
)
def test_a_message_of_ours_has_every_member_but_a_null(
    are_sent_by_us: bool, required: list[str], word: Schema
) -> None:
    assert object_schema(_Members, are_sent_by_us=are_sent_by_us) == {
        "type": "object",
        "description": "A thing.",
        "properties": {"wanted": {"type": "integer"}, "toWord": word, "nothing": {"type": "string"}},
        "required": required,
    }
