"""``sidecar chat`` beside an editor that has the file open: the day of the editors, in three widths."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from provider_fakes.scenes import Called, Ended, Scene, Spent
from sidecar_client.sync import SidecarClient
from tests.editors.conftest import DAEMON, write_foreign_session
from tests.editors.day import Day
from tests.editors.scenes import SHOUT
from threaded_provider import provider_env, provider_in_thread, says

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="drives a POSIX terminal"),
]

if os.name != "nt":
    from terminals import Screened


def calls(name: str, **given: object) -> Scene:
    return (Called(f"c-{name}", name, (json.dumps(given),)), Spent(900, 20), Ended("tool_calls"))


SCENES = (
    calls("read", path="a.py"),
    says("It has **42** on its first line.\n\n" + "".join(f"- reason {at}\n" for at in range(40))),
    calls("read", path="b.py"),
    calls("edit", path="b.py", edits=[{"old_text": "answer = 42", "new_text": "answer = 43"}]),
    says("It is 43 now."),
    calls("read", path="words.txt"),
    calls("edit", path="words.txt", edits=SHOUT),
    says("I have shouted."),
    calls("bash", command="touch made-by-the-model"),
    says("I was quick."),
    says("# Goal\nThe answer is to be 43."),
    *(says("It goes on."),) * 3,
)


def is_shown(chat: Screened, text: str) -> bool:
    return text in chat.shown


@pytest.fixture
def home() -> Iterator[Path]:
    """A state directory with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as folder:
        yield Path(folder).resolve()


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_day_in_the_terminal(
    home: Path, project: Path, keep: Callable[[str, str], None], columns: int
) -> None:
    write_foreign_session(home, project)
    (project / "b.py").write_text("answer = 42\n")
    unsaved = "mine = 'unsaved'\n" + (project / "a.py").read_text()
    with provider_in_thread(SCENES) as provider:
        own = {
            **provider_env(provider),
            "HOME": str(home),
            "INDUSAGI_HOME": str(home),
            "TERM": "xterm-256color",
        }
        with SidecarClient.spawn((*DAEMON, "serve", "--shared"), cwd=project, env=own) as editor:
            editor.did_open(project / "a.py", unsaved)
            chat = Screened(project, own, "chat", columns=columns)
            talk_all_day(chat, editor, project, keep)


def talk_all_day(
    chat: Screened, editor: SidecarClient, project: Path, keep: Callable[[str, str], None]
) -> None:
    day = Day()
    day.step("answer")
    chat.wait_for("»")
    chat.type("what is in a.py?\r")
    chat.wait_for("• reason 39")
    keep("1 answer", chat.shown)

    day.step("allow")
    chat.type("make it 43\r")
    chat.wait_for("[y]es")
    chat.wait_for("+ answer = 43")
    keep("2 question", chat.shown)
    chat.type("y")
    chat.wait_for("It is 43 now.")
    assert (project / "b.py").read_text() == "answer = 43\n"

    day.step("parts")
    chat.type("shout\r")
    chat.wait_for("[p]art by part")
    chat.type("p")
    for number, key in enumerate("yny", 1):
        chat.wait_for(partial(is_shown, chat, f"keep part {number} of 3?  [y]es"))
        chat.type(key)
    chat.wait_for("2 of 3 parts are allowed")
    chat.wait_for("I have shouted.")
    keep("3 parts", chat.shown)
    assert (project / "words.txt").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"

    day.step("steer")
    chat.type("make a file\r")
    chat.wait_for("touch made-by-the-model")
    chat.wait_for("[n]o")
    chat.type("be quick\x13")
    chat.wait_for("goes into the running turn")
    chat.type("n")
    chat.wait_for("I was quick.")
    chat.wait_for("» be quick")
    assert not (project / "made-by-the-model").exists()

    day.step("compact")
    chat.type("/compact\r")
    chat.wait_for(lambda: "compact now?  [y]es" in chat.shown)
    keep("3 preview", chat.shown)
    chat.type("y")
    chat.wait_for("the older part is now a summary")
    keep("4 compacted", chat.shown)
    (sid,) = [each.sid for each in editor.session_list().sessions]
    assert "mine = 'unsaved'" in (editor.session_export(sid).text or "")
    day.step("undo")
    chat.type("/undo\r")
    chat.wait_for("tokens are restored")

    day.step("rewind")
    chat.type("/rewind\r")
    chat.wait_for("go back to before")
    chat.type("\x1b[B\x1b[B\x1b[B\r")
    chat.wait_for("take the changes of the 2 files back, too")
    keep("5 rewind", chat.shown)
    chat.type("\r")
    chat.wait_for(lambda: (project / "b.py").read_text() == "answer = 42\n")
    chat.wait_for(lambda: "» make it 43" in chat.shown.rpartition("leave the 2 files as now")[2])
    chat.type("\x03")

    day.step("kill")
    os.kill(editor.status().pid, signal.SIGKILL)
    chat.wait_for("another daemon goes on with the conversation")
    chat.type("and now?\r")
    chat.wait_for("It goes on.")
    keep("6 after the kill", chat.shown)

    day.step("import")
    chat.type("/import\r")
    chat.wait_for("a question of before")
    chat.type("\r")
    chat.wait_for("an answer of before")
    keep("7 import", chat.shown)

    day.step("resume")
    chat.type("/resume\r")
    chat.wait_for("go on with")
    n_before = chat.text.count("It goes on.")
    chat.type("\r")
    chat.wait_for(lambda: chat.text.count("It goes on.") > n_before)
    keep("8 resumed", chat.shown)
    chat.type("\x04")
    assert chat.end() == 0, chat.text
    day.end()
