"""The rows of THE method table about whole sessions; :mod:`sidecar.protocol.methods` has the others."""

from __future__ import annotations

from typing import Final

from sidecar.protocol import messages as m
from sidecar.protocol.method import MOVES, STORES, Method

SESSION_METHODS: Final = (
    Method(
        "sidecar/session/new",
        m.SessionNewParams,
        m.SessionNewResult,
        "daemon",
        "Start a session.",
        errors=("modelNotFound", *STORES),
    ),
    Method(
        "sidecar/session/load",
        m.SessionLoadParams,
        m.SessionLoadResult,
        "exclusive",
        "Load a stored session and follow it.",
        errors=("busy", "modelNotFound", *STORES),
    ),
    Method(
        "sidecar/session/list",
        m.SessionListParams,
        m.SessionListResult,
        "daemon",
        "List the stored sessions.",
    ),
    Method(
        "sidecar/session/read",
        m.SessionReadParams,
        m.SessionReadResult,
        "session",
        "Read the nodes of a session without loading or locking it.",
        errors=("compactionNotFound", *STORES),
    ),
    Method(
        "sidecar/session/tree",
        m.SidParams,
        m.SessionTreeResult,
        "session",
        "Return all branches of a session without loading or locking it.",
        errors=STORES,
    ),
    Method(
        "sidecar/session/fork",
        m.SessionForkParams,
        m.SessionNewResult,
        "session",
        "Start a session with the turns of another one.",
        errors=("nodeNotFound", *STORES),
    ),
    Method(
        "sidecar/session/rewind",
        m.SessionRewindParams,
        m.SessionRewindResult,
        "session",
        "Move the end of the conversation to another node; nothing is deleted.",
        errors=("nodeNotFound", *MOVES),
    ),
    Method(
        "sidecar/session/rename",
        m.SessionRenameParams,
        m.SeqResult,
        "exclusive",
        "Give a session a title.",
        errors=STORES,
    ),
    Method(
        "sidecar/session/archive",
        m.SidParams,
        m.SeqResult,
        "exclusive",
        "Leave a session out of the list.",
        errors=STORES,
    ),
    Method(
        "sidecar/session/unarchive",
        m.SidParams,
        m.SeqResult,
        "exclusive",
        "Put an archived session into the list again.",
        errors=STORES,
    ),
    Method(
        "sidecar/session/delete",
        m.SidParams,
        m.Empty,
        "exclusive",
        "Delete a session and its files.",
        errors=("busy", *STORES),
    ),
    Method(
        "sidecar/session/close",
        m.SidParams,
        m.SeqResult,
        "exclusive",
        "Close a session; it stays stored.",
        errors=STORES,
    ),
    Method(
        "sidecar/session/export",
        m.SessionExportParams,
        m.SessionExportResult,
        "session",
        "Return a conversation as text, or write it to a file.",
        errors=("compactionNotFound", *STORES),
    ),
    Method(
        "sidecar/session/setConfigOption",
        m.SetConfigOptionParams,
        m.SetConfigOptionResult,
        "exclusive",
        "Set one option of a session.",
        errors=("modelNotFound", *STORES),
    ),
    Method(
        "sidecar/session/import",
        m.SessionImportParams,
        m.SessionImportResult,
        "daemon",
        "Import a session of another agent, or list those on this machine.",
        errors=("fileProblem", "modelNotFound", *STORES),
    ),
)
