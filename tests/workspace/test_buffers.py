"""The registry of open buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from changed_files import check_problem, content, put
from fake_tools import expect
from fake_workspace import file_view
from sidecar.workspace.buffers import Buffer, Buffers, Editor, text_if_unsaved
from sidecar.workspace.contract import (
    BufferOutOfSyncError,
    ClientFileSource,
    FileAccessError,
    FileView,
    StaleFile,
    TextChange,
)
from sidecar.workspace.files import text_hash
from sidecar.workspace.paths import path_to_uri
from sidecar.workspace.workspace import Workspace

A = Path("/p/a.py")
URI = path_to_uri(A)
SAME = "file:///p/x/../a.py"
"""Another spelling of the path of A."""


class Opened:
    """The buffers of two editors, *me* and *other*."""

    def __init__(self) -> None:
        self.buffers = Buffers()
        self.events: list[Buffer] = []
        self.me, self.other = (Editor(self.buffers, None, on_event=self.events.append) for _ in range(2))

    def open(self, editor: Editor, uri: str, text: str) -> Buffer:
        """Open *uri*, which stands for A, in *editor*."""
        editor.open_buffer(uri, version=1, text=text)
        return self.buffers.by_key[editor, uri]


@pytest.fixture
def opened() -> Opened:
    return Opened()


def touch(editor: Editor, uri: str, *texts: str, version: int = 2) -> None:
    """Replace the text of *uri*."""
    editor.change_buffer(
        uri, version=version, changes=[TextChange(text) for text in texts], encoding="utf-16"
    )


def test_changes_apply_in_order_and_move_the_version(opened: Opened) -> None:
    buffer = opened.open(opened.me, URI, "one")
    touch(opened.me, URI, "two", "three", version=4)
    assert (buffer.version, buffer.content.text) == (4, "three")


@pytest.mark.parametrize("uri", [URI, SAME])
def test_an_unopened_buffer_is_out_of_sync(opened: Opened, uri: str) -> None:
    """One that another editor has open counts as not open."""
    opened.open(opened.other, URI, "one")
    with pytest.raises(BufferOutOfSyncError, match="no such buffer is open"):
        touch(opened.me, uri, "two")


@pytest.mark.parametrize(
    ("is_one_editor", "uri"),
    [pytest.param(True, SAME, id="of one editor"), pytest.param(False, URI, id="of two editors")],
)
def test_of_two_buffers_on_one_file_the_last_touched_stands(
    opened: Opened, is_one_editor: bool, uri: str
) -> None:
    find = opened.buffers.find
    one = opened.open(opened.me, URI, "one")
    two = opened.open(opened.me if is_one_editor else opened.other, uri, "two")
    assert find(A) is two
    touch(opened.me, URI)
    assert find(A) is one
    opened.me.close_buffer(URI)
    assert find(A) is two


def test_an_editor_that_leaves_closes_its_own(opened: Opened) -> None:
    opened.open(opened.me, URI, "one")
    left = opened.open(opened.other, URI, "two")
    opened.open(opened.me, SAME, "three")
    opened.me.close()
    assert opened.buffers.all() == (left,)


def test_unknown_ones_are_ignored_when_saved_or_closed(opened: Opened) -> None:
    opened.me.save_buffer(URI)
    assert not opened.me.close_buffer(URI)
    assert (opened.events, opened.buffers.find(A)) == ([], None)


def test_whatever_the_editor_says_makes_the_buffer_the_truth_again(opened: Opened) -> None:
    buffer = opened.open(opened.me, URI, "one")
    buffer.superseded = True
    touch(opened.me, URI)
    assert (buffer.superseded, buffer.n_events) == (False, 1)
    opened.me.save_buffer(URI, text="one\n")
    assert buffer.content.text == "one\n"


class Client:
    """An editor with *texts* in its windows; what it takes goes to the disk, as *saves* would have it."""

    def __init__(
        self, texts: dict[Path, str] | None = None, *, accepts: bool = True, saves: str = ""
    ) -> None:
        self.texts = texts or {}
        self.asked: list[Path] = []
        self.written: list[tuple[Path, str]] = []
        self._accepts = accepts
        self._saves = saves

    @property
    def reader(self) -> ClientFileSource:
        return ClientFileSource(read=self.read)

    @property
    def both(self) -> ClientFileSource:
        return ClientFileSource(read=self.read, write=self.write)

    async def read(self, path: Path) -> str | None:
        self.asked.append(path)
        return self.texts.get(path)

    async def write(self, path: Path, text: str) -> bool:
        self.written.append((path, text))
        if self._accepts:
            self.texts.pop(path, None)
            put(path, self._saves or text)
        return self._accepts


def told_view(path: Path, text: str) -> FileView:
    """What the view of a client's unsaved text is like."""
    return file_view(path, text, source="buffer", unsaved=True)


UNSAVED = {
    "the same text is saved": ("a", "a", None),
    "another text is not": ("b", "a", "b"),
    "LF for CR LF is the same text": ("a\nb\n", "a\r\nb\r\n", None),
    "what is unsaved keeps the line ends of its file": ("a\nc\n", "a\r\nb\r\n", "a\r\nc\r\n"),
    "line ends that are sent stay": ("a\r\nc\r\n", "a\r\nb\r\n", "a\r\nc\r\n"),
    "mixed line ends are not guessed": ("a\nb\n", "a\r\nb\n", "a\nb\n"),
    "a byte order mark is no text": ("\ufeffa", "a", None),
    "an emptied buffer is unsaved": ("", "a", ""),
}


@pytest.mark.parametrize(("received", "on_disk", "unsaved"), UNSAVED.values(), ids=UNSAVED)
def test_what_counts_as_unsaved(received: str, on_disk: str, unsaved: str | None) -> None:
    assert text_if_unsaved(received, on_disk) == unsaved


class TestRead:
    """The client's unsaved text comes before the disk."""

    async def test_unsaved_text_is_the_truth(self, workspace: Workspace, root: Path, file: Path) -> None:
        workspace.add_client_files(root, Client({file: "mine"}).reader)
        assert await workspace.view(file) == told_view(file, "mine")

    @pytest.mark.parametrize("texts", [{}, {"a.py": "disk"}])
    async def test_a_file_without_unsaved_text_is_the_one_on_disk(
        self, workspace: Workspace, root: Path, file: Path, texts: dict[str, str]
    ) -> None:
        workspace.add_client_files(root, Client({root / name: text for name, text in texts.items()}).reader)
        view = await workspace.view(file)
        assert (view.text, view.source, view.unsaved) == ("disk", "disk", False)

    async def test_an_open_buffer_needs_no_asking(self, workspace: Workspace, root: Path, file: Path) -> None:
        client = Client({file: "theirs"})
        workspace.add_client_files(root, client.reader)
        workspace.editor().open_buffer(path_to_uri(file), version=1, text="ours")
        assert ((await workspace.view(file)).text, client.asked) == ("ours", [])

    @pytest.mark.parametrize("name", ["missing.py", "image.png", "sub"])
    async def test_only_text_files_of_the_disk_are_asked_for(
        self, workspace: Workspace, root: Path, name: str
    ) -> None:
        (root / "image.png").write_bytes(b"\x89PNG\r\n\0\0")
        (root / "sub").mkdir()
        client = Client({root / name: "text"})
        workspace.add_client_files(root, client.reader)
        with pytest.raises(FileAccessError):
            await workspace.view(root / name)
        assert client.asked == []

    async def test_only_files_below_the_folder_are_asked_for(
        self, workspace: Workspace, root: Path, file: Path
    ) -> None:
        client = Client({file: "mine"})
        (root / "sub").mkdir()
        workspace.add_client_files(root / "sub", client.reader)
        assert ((await workspace.view(file)).text, client.asked) == ("disk", [])

    async def test_of_several_clients_the_newest_counts_while_it_is_there(
        self, workspace: Workspace, root: Path, file: Path
    ) -> None:
        workspace.add_client_files(root, Client({file: "old"}).reader)
        dispose = workspace.add_client_files(root, Client({file: "new"}).reader)
        first = await workspace.view(file)
        dispose()
        dispose()
        assert (first.text, (await workspace.view(file)).text) == ("new", "old")

    async def test_what_the_model_read_is_stale_once_the_client_has_another_text(
        self, workspace: Workspace, root: Path, file: Path
    ) -> None:
        stale: list[StaleFile] = []
        expect(workspace.tracker("s", stale.append), await workspace.view(file))
        workspace.add_client_files(root, Client({file: "mine"}).reader)
        workspace.disk_changed([file])
        await workspace.settle()
        assert [(each.now_hash, each.source) for each in stale] == [(text_hash("mine"), "buffer")]


class TestWrite:
    """What is written goes through the client that takes it."""

    @pytest.mark.parametrize(
        ("client", "name", "seen", "becomes"),
        [
            pytest.param(Client({Path("a.py"): "mine"}), "a.py", "mine", "ours", id="unsaved text"),
            pytest.param(Client(), "new.py", None, "ours", id="a new file"),
            pytest.param(Client(saves="formatted"), "a.py", "disk", "formatted", id="what it made of it"),
        ],
    )
    async def test_a_write_lands_where_the_client_puts_it(
        self,
        workspace: Workspace,
        root: Path,
        file: Path,
        client: Client,
        name: str,
        seen: str | None,
        becomes: str,
    ) -> None:
        client.texts = {root / path: text for path, text in client.texts.items()}
        workspace.add_client_files(root, client.both)
        expected = None if seen is None else text_hash(seen)
        view = await workspace.write(root / name, "ours", expected_hash=expected)
        assert (view.text, view.source, content(root / name)) == (becomes, "disk", becomes)
        assert client.written == [(root / name, "ours")]

    @pytest.mark.parametrize("expected", ["disk", None])
    async def test_a_text_nobody_has_seen_is_not_written_over(
        self, workspace: Workspace, root: Path, file: Path, expected: str | None
    ) -> None:
        client = Client({file: "mine"})
        workspace.add_client_files(root, client.both)
        seen = None if expected is None else text_hash(expected)
        await check_problem(workspace.write(file, "ours", expected_hash=seen), "changedSinceRead")
        assert (client.written, content(file)) == ([], "disk")

    async def test_a_client_that_does_not_take_it(self, workspace: Workspace, root: Path, file: Path) -> None:
        workspace.add_client_files(root, Client(accepts=False).both)
        await check_problem(workspace.write(file, "ours", expected_hash=text_hash("disk")), "unwritable")
        assert content(file) == "disk"

    async def test_unsaved_text_of_a_client_that_takes_no_writes_is_kept(
        self, workspace: Workspace, root: Path, file: Path
    ) -> None:
        workspace.add_client_files(root, Client({file: "mine"}).reader)
        await check_problem(workspace.write(file, "ours", expected_hash=text_hash("mine")), "unwritable")
        assert content(file) == "disk"
        workspace.add_client_files(root, Client().reader)
        assert (await workspace.write(file, "ours", expected_hash=text_hash("disk"))).text == "ours"

    async def test_a_file_that_is_no_text_is_not_handed_to_a_client(
        self, workspace: Workspace, root: Path
    ) -> None:
        image = root / "image.png"
        image.write_bytes(b"\x89PNG\r\n\0\0")
        client = Client()
        workspace.add_client_files(root, client.both)
        await check_problem(workspace.write(image, "ours", expected_hash=None), "binary")
        assert client.written == []


async def test_who_writes_a_file_is_not_told_of_it_and_others_are(workspace: Workspace, root: Path) -> None:
    """However long the client takes: what it has not confirmed yet is no change of somebody's."""
    file = root / "a"
    put(file, "old")
    own: list[StaleFile] = []
    others: list[StaleFile] = []
    tracker, other = workspace.tracker("s", own.append), workspace.tracker("t", others.append)

    async def write(path: Path, text: str) -> bool:
        put(path, text)
        workspace.disk_changed([path])
        await workspace.settle()
        return True

    workspace.add_client_files(root, ClientFileSource(write=write))
    before = await workspace.view(file)
    for each in (tracker, other):
        expect(each, before)
    expect(tracker, await workspace.write(file, "new", expected_hash=before.hash))
    await workspace.settle()
    assert own == []
    assert [stale.now_hash for stale in others] == [text_hash("new")]
