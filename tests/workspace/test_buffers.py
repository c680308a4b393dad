"""The registry of open buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.workspace.buffers import Buffers
from sidecar.workspace.contract import BufferOutOfSync, TextChange

A = Path("/p/a.py")


def test_changes_apply_in_order_and_move_the_version() -> None:
    buffers = Buffers()
    buffers.open("file:///p/a.py", A, 1, "one")
    buffer = buffers.change("file:///p/a.py", 4, [TextChange("two"), TextChange("three")], "utf-16")
    assert (buffer.version, buffer.content.text) == (4, "three")


def test_an_unopened_buffer_is_out_of_sync() -> None:
    with pytest.raises(BufferOutOfSync, match="no such buffer is open"):
        Buffers().change("file:///p/a.py", 2, [], "utf-16")


def test_of_two_buffers_on_one_file_the_last_touched_stands() -> None:
    buffers = Buffers()
    buffers.open("file:///p/a.py", A, 1, "one")
    buffers.open("file:///link/a.py", A, 1, "two")
    buffers.change("file:///p/a.py", 2, [], "utf-16")
    found = buffers.find(A)
    assert found is not None
    assert found.uri == "file:///p/a.py"
    buffers.close("file:///p/a.py")
    found = buffers.find(A)
    assert found is not None
    assert found.content.text == "two"


def test_saving_takes_the_text_the_editor_saved() -> None:
    buffers = Buffers()
    buffers.open("u", A, 1, "one")
    buffer = buffers.save("u", "one\n")
    assert buffer is not None
    assert buffer.content.text == "one\n"


def test_unknown_ones_are_ignored_when_saved_or_closed() -> None:
    assert (Buffers().save("u", None), Buffers().close("u"), Buffers().find(A)) == (None, None, None)


def test_whatever_the_editor_says_makes_the_buffer_the_truth_again() -> None:
    buffers = Buffers()
    buffers.open("u", A, 1, "one")
    buffer = buffers.all()[0]
    buffer.superseded = True
    buffers.change("u", 2, [], "utf-16")
    assert (buffer.superseded, buffer.n_events) == (False, 1)


def test_clear_forgets_all() -> None:
    buffers = Buffers()
    buffers.open("u", A, 1, "one")
    buffers.clear()
    assert buffers.all() == ()
