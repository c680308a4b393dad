"""The reference: generated, up to date, and true of the running daemon."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import lifecycle
from reference_page import LIFECYCLE, PAGE, acp_updates, pretty, reference_page
from sidecar.conductor.content import COMMANDS
from sidecar.protocol.errors import COMMON_ERRORS, ERROR_KINDS
from sidecar.protocol.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, EVENTS, METHODS, NOTIFICATIONS
from sidecar.protocol.schema import schema_text
from sidecar.server.handshake import COMMANDS as EDITOR_COMMANDS

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    """``make reference`` writes it again."""
    assert reference_page() == TEXT == schema_text("markdown")


@pytest.mark.e2e
def test_the_daemon_plays_the_session_on_the_page(tmp_path: Path) -> None:
    """``make reference`` records it again."""
    recorded = [[side, message] for side, message in lifecycle.record(tmp_path.resolve())]
    assert recorded == json.loads(LIFECYCLE.read_text(encoding="utf-8"))


def test_every_link_of_the_page_has_its_heading() -> None:
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) - anchors == set()


def test_every_message_has_an_example() -> None:
    sections = {
        part.partition("\n")[0].strip("` "): part for part in re.split(r"^### ", TEXT, flags=re.MULTILINE)
    }
    names = {*METHODS, *CLIENT_REQUESTS, *CLIENT_NOTIFICATIONS, *NOTIFICATIONS} | {
        f"Event `{kind}" for kind in EVENTS
    }
    assert {name for name in names if "```json" not in sections[name]} == set()


def test_every_kind_of_error_that_a_method_names_exists() -> None:
    named = {kind for row in METHODS.values() for kind in row.errors}
    assert named <= set(ERROR_KINDS) - set(COMMON_ERRORS)
    assert set(COMMON_ERRORS) <= set(ERROR_KINDS)


def test_the_page_names_every_command() -> None:
    assert [command.name for command in COMMANDS if f"`/{command.name}" not in TEXT] == []
    assert [name for name in EDITOR_COMMANDS if f".{name.removeprefix('sidecar.')}`" not in TEXT] == []


def test_the_table_of_updates_has_every_event() -> None:
    assert {kind for row in acp_updates() for kind in re.findall(r"`(\w+)`", row[0])} == set(EVENTS)


def test_a_value_that_fits_on_a_line_stands_on_one() -> None:
    value = {"a": ["x" * 40, "y" * 40], "b": {"c": "z" * 60}}
    assert json.loads(pretty(value)) == value
    assert max(map(len, pretty(value).splitlines())) <= 100
    assert pretty({"a": 1}) == '{"a": 1}'
