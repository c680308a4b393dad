"""The parts of ``sidecar chat`` that need no terminal."""

from __future__ import annotations

import doctest
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon_in_memory import client_in_memory
from sidecar.commands.talking import actions, app, typing
from sidecar.commands.talking.app import read_branch
from sidecar.commands.talking.rendering import MarkdownStream, diff_lines
from sidecar.commands.talking.talk import Talk
from sidecar.commands.talking.typing import PastedImages, find_image, open_history, read_prompt
from sidecar.commands.terminal import Screen
from sidecar_client import ClientEvent

PIECES = [
    "# A\n",
    "text",
    " ",
    "\n",
    "\n\n",
    "- item\n",
    "```py\n",
    "```\n",
    "code()\n",
    "|a|b|\n|---|---|\n",
]


@pytest.mark.parametrize(
    ("kind", "seq", "duration_ms", "n_rung"),
    [
        pytest.param("settled", 7, 20_000, 1, id="a long turn calls its user"),
        pytest.param("faulted", 7, 20_000, 1, id="also when it failed"),
        pytest.param("settled", 7, 19_999, 0, id="after a short one the user is still there"),
        pytest.param("settled", 0, 20_000, 0, id="one of the past calls nobody"),
        pytest.param("usage", 7, 20_000, 0, id="no other event is an end"),
    ],
)
def test_the_end_of_a_long_turn_is_reported_by_the_bell(
    kind: str, seq: int, duration_ms: int, n_rung: int
) -> None:
    rung: list[str] = []
    talk: Any = SimpleNamespace(app=SimpleNamespace(ring=rung.append))
    event = ClientEvent(sid="s", seq=seq, at=0, kind=kind, data={"durationMs": duration_ms})
    Talk.report_end(talk, event)
    assert rung == ["the turn is over"] * n_rung


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_no_word_of_an_answer_is_lost_or_repeated(pieces: list[str]) -> None:
    stream = MarkdownStream()
    blocks = [block for piece in pieces for block in stream.feed(piece)] + stream.finish()
    assert "".join("".join(blocks).split()) == "".join("".join(pieces).split())
    assert stream.tail == ""


def test_long_code_is_finished_in_parts() -> None:
    stream = MarkdownStream()
    blocks = [block for at in range(100) for block in stream.feed("```py\n" * (at == 0) + f"line{at}\n")]
    assert [block.count("line") for block in blocks] == [40, 40]
    assert all(block.startswith("```py\n") and block.endswith("```") for block in blocks)
    assert stream.tail.count("line") == 20


@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60))
def test_a_difference_has_each_line_that_changed(old: str, new: str) -> None:
    lines = list(diff_lines(old, new))
    before, after = old.splitlines(), new.splitlines()
    for sign, number, text in lines:
        if sign in "+ ":
            assert after[number - 1] == text
        elif sign == "-":
            assert before[number - 1] == text
    n_added = sum(sign == "+" for sign, _, _ in lines)
    n_removed = sum(sign == "-" for sign, _, _ in lines)
    assert len(before) - n_removed == len(after) - n_added
    assert bool(n_added or n_removed) == (before != after)


def test_texts_that_are_too_long_to_compare_are_removed_and_added_whole() -> None:
    old, new = ("same\n" + "".join(f"{name} {at}\n" for at in range(3000)) + "end" for name in "ab")
    lines = list(diff_lines(old, new))
    assert [lines[0], lines[1], lines[3001], lines[-1]] == [
        (" ", 1, "same"),
        ("-", 2, "a 0"),
        ("+", 2, "b 0"),
        (" ", 3002, "end"),
    ]
    assert len(lines) == 6002


def test_images_named_in_a_prompt_go_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "shot.png").write_bytes(b"png")
    text = "look at @a.py, @shot.png and @missing.py as @~2.png, not at me@a.py"
    prompt, image = read_prompt(text, tmp_path)
    assert prompt == {"type": "text", "text": text}
    uri = (tmp_path / "shot.png").resolve().as_uri()
    assert image == {"type": "image", "mimeType": "image/png", "data": "cG5n", "uri": uri}


def test_a_long_history_loses_its_older_half(tmp_path: Path) -> None:
    history = open_history(tmp_path, tmp_path / "project")
    for at in range(3):
        history.store_string(f"{at} " + "x" * 400_000)
    kept = list(open_history(tmp_path, tmp_path / "project").load_history_strings())
    assert [text[:2] for text in kept] == ["2 "]
    assert list(open_history(tmp_path, tmp_path / "other").load_history_strings()) == []


@pytest.mark.parametrize(
    ("head", "branch"),
    [("ref: refs/heads/fix/parser\n", "fix/parser"), ("0123456789abcdef\n", "01234567"), (None, "")],
)
def test_the_branch_is_read_from_any_folder_below(tmp_path: Path, head: str | None, branch: str) -> None:
    below = tmp_path / "src"
    below.mkdir()
    if head is not None:
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git/HEAD").write_text(head)
    assert read_branch(below) == branch


def test_the_examples_hold() -> None:
    for module in (actions, app, typing):
        assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("form", ["{}", "'{}'", '"{}"', "file://{}", " {}\n"])
def test_a_pasted_path_of_an_image_is_found(tmp_path: Path, form: str) -> None:
    image = tmp_path / "shot.PNG"
    image.write_bytes(b"png")
    assert find_image(form.format(image.as_posix()), tmp_path) == image
    assert find_image(form.format(tmp_path / "no.png"), tmp_path) is None


@pytest.mark.skipif(os.name == "nt", reason="a backslash separates folders there")
def test_an_image_with_blanks_in_its_path_is_copied_for_the_prompt(tmp_path: Path) -> None:
    image = tmp_path / "a shot.png"
    image.write_bytes(b"png")
    assert find_image(str(image).replace(" ", "\\ "), tmp_path) == image
    pasted = PastedImages()
    mention = pasted.mention(image)
    assert Path(mention.removeprefix("@")).read_bytes() == b"png"
    assert len(read_prompt(mention, tmp_path)) == 2
    pasted.remove()
    assert not Path(mention.removeprefix("@")).exists()
    assert pasted.mention(tmp_path / "b.png") == f"@{tmp_path / 'b.png'}"


@pytest.mark.parametrize("pasted", ["two\nlines.png", "", "'", "\0.png", "x" * 5000 + ".png", "word"])
def test_other_pasted_text_is_no_image(tmp_path: Path, pasted: str) -> None:
    assert find_image(pasted, tmp_path) is None


class ChoosingUser:
    """A user who chooses the first row of the first question, and *then* of the next one."""

    def __init__(self, then: str) -> None:
        self.answers = ["", then]
        self.asked: list[tuple[str, Sequence[tuple[str, str]]]] = []

    async def choose(self, title: str, rows: Sequence[tuple[str, str]]) -> str | None:
        self.asked.append((title, rows))
        return self.answers.pop(0) or rows[0][0]

    async def confirm(self, question: str) -> bool:
        return True

    async def submit(self, prompt: str) -> None: ...

    def type(self, text: str) -> None: ...


@pytest.mark.parametrize(
    ("then", "told"),
    [("turn", "are back; /undo takes them away"), ("words", "pinned from the next request on")],
)
async def test_a_thinned_entry_is_looked_at_and_brought_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str, told: str
) -> None:
    long = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 30
    talk = [{"role": role, "content": f"{at} {long}"} for at in range(20) for role in ("user", "assistant")]
    (tmp_path / "talk.json").write_text(json.dumps(talk))
    models, out = {"m": {"scripted": [], "contextWindow": 32_000}}, io.StringIO()
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path / "home"))
    async with client_in_memory(tmp_path, options={"models": models}) as client:
        imported = await client.session_import(path=str(tmp_path / "talk.json"), cwd=str(tmp_path), model="m")
        session = await client.load_session(str(imported.sid))
        user = ChoosingUser(then)
        offered = actions.Actions(client, session, tmp_path, Screen(out), user)
        await offered.loss("")
        assert "nothing is lost" in out.getvalue()
        await offered.compact("")
        assert "/loss shows what is not whole" in out.getvalue()
        await offered.loss("")
        assert user.asked[0][0] == "look at"
        assert all(
            label.split("  ")[0].strip() in ("let go", "one line", "thinned") for _, label in user.asked[0][1]
        )
        assert long.strip() in out.getvalue(), "the whole turn is shown"
        assert told in out.getvalue()
        if then == "words":
            assert len((await client.context_pin(session.sid)).pins) == 1
