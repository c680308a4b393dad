"""Recorded sessions of real agents import whole: every typed word, one result a call, nothing to heal."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest

from recorded_sessions import read_records, recordings
from sidecar.conversation import Entry
from sidecar.importing.contract import ImportedSession
from sidecar.importing.reading import read_session as read_uncached
from sidecar.llmgateway.contract import CommandBlock, TextBlock, ToolCallBlock, ToolResultBlock
from sidecar.runtime.store import SessionGraph, heal

pytestmark = pytest.mark.slow

WITH_CALLS = (
    "claude-code",
    "codex",
    "opencode",
    "copilot-cli",
    "gemini-cli",
    "pi",
    "cline",
    "tau-bench",
    "swe-agent",
)
AGENTS = (*WITH_CALLS, "openhands", "aider", "mini-swe-agent")
HARNESS = re.compile(
    r"\s*(?:<(?:command-|bash-|local-command)|\[Request interrupted)|--- Content from referenced"
)


@lru_cache(maxsize=1)
def read_session(path: Path) -> ImportedSession:
    return read_uncached(path)


def branches(session: ImportedSession) -> list[list[Entry]]:
    """Return the entries of every branch."""
    graph = SessionGraph("s")
    graph.restore(session.entries, session.leaf)
    parents = {entry.parent for entry in session.entries}
    leaves = (entry.node_id for entry in session.entries if entry.node_id not in parents)
    return [list(graph.entry_path(leaf)) for leaf in leaves]


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("path", recordings(AGENTS))
def test_every_typed_word_of_a_recording_is_in_a_prompt(path: Path) -> None:
    session = read_session(path)
    # A file that the user mentioned follows the prompt as an entry of its own.
    entries = (entry for entry in session.entries if entry.kind in ("user", "file"))
    blocks = [block for entry in entries for block in entry.turn.blocks]
    typed = words(" ".join(block.text for block in blocks if isinstance(block, TextBlock)))
    commands = {block.command for block in blocks if isinstance(block, CommandBlock)}
    wanted = [
        record["text"].split("\n")[0] if record["role"] == "bash" else record["text"]
        for record in read_records(path)
        if record["role"] in ("user", "bash") and not record.get("meta", {}).get("kind")
    ]
    missing = [
        text
        for text in wanted
        if not HARNESS.match(text) and words(text) not in typed and text.strip().lstrip("/") not in commands
    ]
    assert [each for each in missing if not all(words(line) in typed for line in each.split("\n"))] == []


@pytest.mark.parametrize("path", recordings(AGENTS))
def test_no_branch_of_a_recording_needs_to_be_healed(path: Path) -> None:
    for entries in branches(read_session(path)):
        turns = [entry.turn for entry in entries]
        assert list(heal(turns)) == turns
        ids = [block.id for turn in turns for block in turn.blocks if isinstance(block, ToolCallBlock)]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("path", recordings(WITH_CALLS))
def test_every_recorded_result_is_imported_or_counted(path: Path) -> None:
    session = read_session(path)
    recorded = [record for record in read_records(path) if record["role"] == "tool"]
    notes = session.report.notes
    n_found = sum(
        isinstance(block, ToolResultBlock) for entry in unique_entries(session) for block in entry.turn.blocks
    )
    n_added, n_left = notes.get("danglingCall", 0), notes.get("orphanResult", 0) + notes.get("duplicate", 0)
    assert n_found - n_added <= len(recorded) <= n_found - n_added + n_left


@pytest.mark.parametrize("path", recordings(AGENTS))
def test_an_imported_recording_has_each_compaction_that_can_be_read(path: Path) -> None:
    session = read_session(path)
    kinds = [record.get("meta", {}).get("kind") for record in read_records(path)]
    n_opaque = session.report.notes.get("opaqueSummary", 0)
    assert kinds.count("compaction_summary") == session.report.n_compactions + n_opaque
    folded = [entry for entry in session.entries if entry.kind == "summary"]
    assert [bool(entry.origin) for entry in folded] == [True] * session.report.n_compactions


def unique_entries(session: ImportedSession) -> list[Entry]:
    """Return the entries without the copies that a compaction kept on its branch."""
    return list({id(entry.turn): entry for entry in session.entries}.values())
