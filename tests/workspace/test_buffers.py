"""The registry of open buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.workspace.buffers import Buffer, Buffers
from sidecar.workspace.contract import BufferOutOfSyncError, TextChange
from sidecar.workspace.line_index import LineText

A = Path("/p/a.py")
ME, OTHER = "me", "other"


def open_in(buffers: Buffers, editor: str, uri: str, text: str) -> Buffer:
    """Open *uri*, which stands for A, in *editor*."""
    buffer = Buffer(uri=uri, path=A, version=1, content=LineText(text))
    buffers.open(editor, buffer)
    return buffer


def touch(buffers: Buffers, editor: str, uri: str, *texts: str, version: int = 2) -> Buffer:
    """Replace the text of *uri*."""
    changes = [TextChange(text) for text in texts]
    return buffers.change(editor, uri, version=version, changes=changes, encoding="utf-16")


def test_changes_apply_in_order_and_move_the_version() -> None:
    buffers = Buffers()
    open_in(buffers, ME, "u", "one")
    buffer = touch(buffers, ME, "u", "two", "three", version=4)
    assert (buffer.version, buffer.content.text) == (4, "three")


@pytest.mark.parametrize("uri", ["u", "other"])
def test_an_unopened_buffer_is_out_of_sync(uri: str) -> None:
    """One that another editor has open counts as not open."""
    buffers = Buffers()
    open_in(buffers, OTHER, "u", "one")
    with pytest.raises(BufferOutOfSyncError, match="no such buffer is open"):
        touch(buffers, ME, uri, "two")


@pytest.mark.parametrize(
    ("second", "uri"),
    [pytest.param(ME, "link", id="of one editor"), pytest.param(OTHER, "u", id="of two editors")],
)
def test_of_two_buffers_on_one_file_the_last_touched_stands(second: str, uri: str) -> None:
    buffers = Buffers()
    one, two = open_in(buffers, ME, "u", "one"), open_in(buffers, second, uri, "two")
    assert buffers.find(A) is two
    touch(buffers, ME, "u")
    assert buffers.find(A) is one
    buffers.close(ME, "u")
    assert buffers.find(A) is two


def test_each_editor_has_its_own() -> None:
    buffers = Buffers()
    open_in(buffers, ME, "u", "one")
    open_in(buffers, OTHER, "u", "two")
    open_in(buffers, ME, "v", "three")
    assert (buffers.uris_of(ME), buffers.uris_of(OTHER), buffers.uris_of("third")) == (("u", "v"), ("u",), ())


def test_saving_takes_the_text_the_editor_saved() -> None:
    buffers = Buffers()
    open_in(buffers, ME, "u", "one")
    buffer = buffers.save(ME, "u", "one\n")
    assert buffer is not None
    assert buffer.content.text == "one\n"


def test_unknown_ones_are_ignored_when_saved_or_closed() -> None:
    buffers = Buffers()
    assert (buffers.save(ME, "u", None), buffers.close(ME, "u"), buffers.find(A)) == (None, None, None)


def test_whatever_the_editor_says_makes_the_buffer_the_truth_again() -> None:
    buffers = Buffers()
    buffer = open_in(buffers, ME, "u", "one")
    buffer.superseded = True
    touch(buffers, ME, "u")
    assert (buffer.superseded, buffer.n_events) == (False, 1)


def test_clear_forgets_all() -> None:
    buffers = Buffers()
    open_in(buffers, ME, "u", "one")
    buffers.clear()
    assert buffers.all() == ()
