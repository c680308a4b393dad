"""``sidecar chat`` in a terminal of 60, 80 and 200 columns, as its user sees it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from provider_fakes import FakeProvider
from provider_fakes.http import Hang
from provider_fakes.scenes import Called, Ended, Said, Scene, Spent, Thought
from threaded_provider import provider_env, provider_in_thread, says

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="drives a POSIX terminal"),
]

if os.name != "nt":
    from pictures import chat_picture, compaction_picture, project_to_show
    from terminals import SIDECAR, Screened

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eeman"
ANSWER = f"""# What it does

It **adds** two numbers {HOSTILE}.

```python
def add(a, b):
    return a + b
```

- first
- second
"""
REST = "".join(f"line_{at} = {at}\n" for at in range(9))
CHANGE = {"path": "a.py", "content": f"answer = 43\n{REST}"}


SCENES: Sequence[Scene] = (
    (Thought(("First I look\nthen I edit\nthen I rest",)), *says(ANSWER)),
    (Called("c1", "read", (json.dumps({"path": "a.py"}),)), Spent(900, 20), Ended("tool_calls")),
    (Called("c2", "write", (json.dumps(CHANGE),)), Spent(950, 20), Ended("tool_calls")),
    says("It is 43 now."),
    says("Nothing more."),
)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with provider_in_thread(SCENES) as served:
        yield served


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text(f"answer = 42\n{REST}")
    (folder / "notes.md").write_text("# Notes\n")
    return folder


@pytest.fixture
def env(tmp_path: Path, provider: FakeProvider) -> Mapping[str, str]:
    keys = provider_env(provider)
    home = {"HOME": str(tmp_path), "INDUSAGI_HOME": str(tmp_path / "home"), "TERM": "xterm-256color"}
    return {**keys, **home}


def rings(chat: Screened) -> list[bytes]:
    """Return the bells and notices that a terminal was sent; the end of a title is no bell."""
    return re.findall(rb"\x07|\x1b\]9;.*?\x1b\\", re.sub(rb"\x1b\][02];[^\x07]*\x07", b"", chat.raw))


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_conversation_is_seen_at_any_width(project: Path, env: Mapping[str, str], columns: int) -> None:
    chat = Screened(project, env, "chat", "--model", "anthropic:claude-sonnet-4-5", columns=columns)
    chat.wait_for("»")
    chat.type("what does\\\rit do?\r")
    for text in ("• second", "» what does\n  it do?", "What it does", "def add(a, b):", "· thought"):
        chat.wait_for(text)
    assert "# What" not in chat.text, "Markdown is rendered"
    assert "then I edit" not in chat.text, "thinking is folded to its first line"
    chat.type("\x0f")
    chat.wait_for("then I rest")
    assert b"\x1b]0;owned" not in chat.raw, "no escape of a model reaches the terminal"
    assert "\u202e".encode() not in chat.raw

    chat.type("make it 43\r")
    for text in ("[y]es", "- answer = 42", "+ answer = 43", "? waiting for you"):
        chat.wait_for(text)  # the change is seen before it is allowed
    bells = [b"\x07", b"\x1b]9;sidecar: waiting for you: Write a.py\x1b\\"]
    chat.wait_for(lambda: rings(chat) == bells)
    chat.type("y")
    chat.wait_for("It is 43 now.")
    assert (project / "a.py").read_text().startswith("answer = 43\n")
    chat.wait_for(lambda: "? waiting for you" not in chat.shown)
    chat.wait_for(lambda: chat.text.count("+ answer = 43") == 1)

    chat.type("/rewind\r")
    chat.wait_for("go back to before")
    chat.type("\r")
    chat.wait_for("a.py  +1 -1")
    chat.type("\r")
    chat.wait_for("  a.py: restored")
    assert (project / "a.py").read_text().startswith("answer = 42\n")
    chat.wait_for(lambda: chat.text.count("» make it 43\n") == 2)
    chat.wait_for(lambda: chat.text.count("» /rewind") == 1)
    assert all(len(line) <= columns for line in chat.lines)
    chat.type("\x03\x03\x03")
    assert chat.end() == 130
    assert '" continues it' in chat.text.replace("\n", "")


def test_a_setting_turns_the_bell_off(project: Path, env: Mapping[str, str]) -> None:
    home = Path(env["INDUSAGI_HOME"])
    home.mkdir()
    (home / "config.toml").write_text('notify = "off"\n')
    chat = Screened(project, env, "chat", "--model", "anthropic:claude-sonnet-4-5")
    chat.wait_for("»")
    chat.type("!touch x\r")
    chat.wait_for("[y]es")
    chat.wait_for("? waiting for you")
    chat.type("n")
    chat.wait_for("not allowed")
    chat.type("\x04")
    assert chat.end() == 0
    assert rings(chat) == []


def test_nothing_is_allowed_by_one_key_before_it_was_shown(tmp_path: Path, project: Path) -> None:
    """Long lines are shown whole, blanks are counted, and more than sixty lines ask to be viewed."""
    (project / "evil").mkdir()
    hiding = {"command": f"make x{' ' * 3000}; touch y", "cwd": "evil", "background": True}
    long = {"path": "b.py", "content": "word " * 60 + "far\n" + "line\n" * 99 + "the end\n"}
    scenes: Sequence[Scene] = (
        (Called("c1", "bash", (json.dumps(hiding),)), Spent(900, 20), Ended("tool_calls")),
        (Called("c2", "write", (json.dumps(long),)), Spent(900, 20), Ended("tool_calls")),
        says("Written."),
    )
    with provider_in_thread(scenes) as provider:
        home = {"HOME": str(tmp_path), "INDUSAGI_HOME": str(tmp_path / "home"), "TERM": "xterm-256color"}
        chat = Screened(
            project, {**provider_env(provider), **home}, "chat", "--model", "anthropic:claude-sonnet-4-5"
        )
        chat.wait_for("»")
        chat.type("do it\r")
        chat.wait_for("[n]o")
        shown = "Run in evil, in the background: make x‹3,000 blanks›; touch y"
        chat.wait_for(lambda: shown in " ".join(chat.text.split()))
        chat.type("n")
        chat.wait_for("and 41 more lines")
        chat.wait_for(lambda: "far" in chat.text.split())
        assert "the end" not in chat.text
        chat.type("y")  # no answer yet, so it goes to the box
        chat.wait_for("clear what you have typed")
        chat.type("\x7f")
        chat.wait_for("[v]iew")
        chat.type("v")
        chat.wait_for("[y]es")
        chat.wait_for("the end")
        chat.type("y")
        chat.wait_for("Written.")
        assert (project / "b.py").read_text() == long["content"]
        chat.type("\x04")
        assert chat.end() == 0, chat.text


def test_words_at_a_question_answer_nothing(project: Path, env: Mapping[str, str]) -> None:
    """A single key in an empty box does, and only a capital for good."""
    chat = Screened(project, env, "chat", "--model", "anthropic:claude-sonnet-4-5")
    chat.wait_for("»")
    chat.type("what does it do?\r")
    chat.wait_for("• second")
    chat.type("make it 43\r")
    chat.wait_for("[A]: Always allow")
    for word in ("wait", "please", "yes but", "Any", "a"):
        chat.type(word)
        chat.wait_for(f"» {word}")
        chat.wait_for("clear what you have typed")
        chat.type("y")
        chat.wait_for(f"» {word}y")
        chat.type("\x7f" * 20)
        chat.wait_for("[A]: Always allow")
    assert "allowed" not in chat.text
    assert (project / "a.py").read_text().startswith("answer = 42\n")
    chat.type("A")
    chat.wait_for("It is 43 now.")
    chat.type("\x04")
    assert chat.end() == 0, chat.text


def test_the_conversation_survives_its_daemon(project: Path, env: Mapping[str, str]) -> None:
    chat = Screened(project, env, "chat", "--model", "anthropic:claude-sonnet-4-5")
    chat.wait_for("»")
    chat.type("what does it do?\r")
    chat.wait_for("• second")
    chat.wait_for(lambda: "Esc stops it" not in chat.text)
    (daemon,) = psutil.Process(chat.pid).children()
    os.kill(daemon.pid, signal.SIGKILL)
    chat.wait_for("another daemon goes on with the conversation")
    chat.wait_for("continues: what does it do?")
    chat.type("\x1b[A\r")  # the prompt before, from the history
    chat.wait_for(lambda: chat.text.count("» what does it do?") == 2)
    chat.wait_for("· Read a.py")
    chat.type("\x03")
    chat.wait_for(lambda: "Esc stops it" not in chat.text)
    chat.type("\x04")
    assert chat.end() == 0, chat.text


def test_what_was_seen_is_not_lost(project: Path, tmp_path: Path) -> None:
    """An answer that breaks off stays and is marked, and the next chat offers the conversation."""
    scenes: Sequence[Scene] = (
        (Said(("The first half of it, ",)), Hang()),
        (Said(("Again the half, ",)), Hang()),
    )
    with provider_in_thread(scenes) as provider:
        home = {"HOME": str(tmp_path), "INDUSAGI_HOME": str(tmp_path / "home"), "TERM": "xterm-256color"}
        chat = Screened(project, {**provider_env(provider), **home}, "chat")
        chat.wait_for("model: Claude Sonnet 4.5")
        chat.type("explain it\r")
        chat.wait_for("The first half of it,")
        (daemon,) = psutil.Process(chat.pid).children()
        os.kill(daemon.pid, signal.SIGKILL)
        chat.wait_for("continues: explain it")
        chat.wait_for("the daemon ended in the middle of the turn (interrupted); Up and Enter send")
        chat.wait_for("The first half of it,")
        chat.type("\x1b[A\r")
        chat.wait_for("Again the half,")
        chat.type("\x1b")
        chat.wait_for("· stopped; Up and Enter send the prompt again")
        chat.wait_for(lambda: "Esc stops it" not in chat.shown)
        chat.type("\x04")
        assert chat.end() == 0, chat.text
        again = Screened(project, {**provider_env(provider), **home}, "chat")
        offer = re.compile(r"^  /resume \w{8}  \S+  explain it$", re.MULTILINE)
        again.wait_for(lambda: offer.search(again.text) is not None)
        again.wait_for("/ commands   @ files   ! shell   Ctrl-D leaves")
        again.type("\x04")
        assert again.end() == 0, again.text


def test_what_is_typed_is_completed_queued_and_kept(project: Path, env: Mapping[str, str]) -> None:
    chat = Screened(project, {**env, "NO_COLOR": "1"}, "chat", "--model", "offline-1")
    chat.wait_for("»")
    chat.wait_for("of 32k")
    chat.type("/unc")
    chat.wait_for("Take the newest compaction back")
    chat.type("\x03look at @not")
    chat.wait_for("notes.md")
    chat.type("\t")
    chat.wait_for("@notes.md")
    chat.type("\x03run `env sleep 60`\r")
    chat.wait_for("[y]es")
    chat.type("y")
    chat.wait_for("allowed")
    chat.type("\x1b[200~two lines\nof a paste\x1b[201~")
    chat.wait_for("  of a paste")
    chat.type("\r")
    chat.wait_for("waits: two lines")
    chat.type("\x1b")
    chat.wait_for("» two lines\n  of a paste")
    chat.wait_for(lambda: "Esc stops it" not in chat.text)
    assert not re.search(rb"\x1b\[(\d+;)*[39][0-7][;m]", chat.raw), "no colours"
    chat.type("/permissions\r")
    chat.wait_for("(Enter chooses, Esc leaves it)")
    chat.type("\x1b[B\r")
    chat.wait_for("of 32k   allowEdits")
    image = project / "a shot.png"
    image.write_bytes(b"\x89PNG")
    chat.type(f"\x1b[200~'{image}'\x1b[201~")
    chat.wait_for("image-1.png")
    chat.type("\x03/quit\r")
    assert chat.end() == 0, chat.text


def test_a_compaction_is_seen_before_it_is_done_and_the_past_is_no_work(
    project: Path, env: Mapping[str, str]
) -> None:
    for name in "bcde":
        (project / f"{name}.md").write_text("\n".join(f"line {at} of {name}" for at in range(300)))
    chat = Screened(project, env, "chat", "--model", "offline-1", columns=60)
    chat.wait_for("of 32k")
    for name in "bcde":
        chat.type(f"what is in {name}.md?\r")
        chat.wait_for(f"• {name}.md:12")
    chat.wait_for(lambda: "Esc stops it" not in chat.text)
    chat.type("/compact\r")
    chat.wait_for("compact now?")
    chat.wait_for(lambda: re.search(r"older messages +█+░* +[\d,]+ +→ +0", chat.text) is not None)
    chat.wait_for("[y]es   [n]o")

    def percents() -> list[int]:
        return [int(percent) for percent in re.findall(r"(\d+) % of 32k", chat.text)]

    chat.wait_for(lambda: bool(percents()))
    before = percents()[-1]
    chat.type("y")
    chat.wait_for("the older part is now a summary")
    chat.wait_for(lambda: [percent < before for percent in percents()][-1:] == [True])
    chat.type("/clear\r")
    chat.wait_for("A new conversation begins; /resume")
    chat.type("/resume\r")
    chat.wait_for("go on with")
    chat.type("\r")
    chat.wait_for(lambda: chat.text.count("• e.md:12") == 2)
    chat.type("/context\r")
    chat.wait_for("restored files")
    assert "Esc stops it" not in chat.text, "turns of the past do not run"
    assert all(len(line) <= 60 for line in chat.lines)
    chat.type("\x04")
    assert chat.end() == 0, chat.text


def test_line_by_line_choices_are_numbers_and_nothing_is_drawn(project: Path, env: Mapping[str, str]) -> None:
    chat = Screened(project, env, "chat", "--plain", "--model", "offline-1")
    chat.wait_for("»")
    chat.type("what is in a.py?\n")
    chat.wait_for("of 32,000 tokens")
    chat.type("/rewind\n")
    chat.wait_for("1  what is in a.py?\n")
    chat.wait_for("1 to 1, or nothing:")
    chat.type("1\n")
    chat.wait_for("the prompt was: what is in a.py?")
    assert not re.search(r"[█░]", chat.text)
    assert b"\x1b[" not in chat.raw
    chat.type("/quit\n")
    assert chat.end() == 0, chat.text


@pytest.mark.slow
def test_the_pictures_of_the_readme_can_be_made_anew() -> None:
    with project_to_show() as folder:
        assert "refuse ports that cannot be" in chat_picture(folder).replace("&#160;", " ")
    with project_to_show() as folder:
        assert "restored files" in compaction_picture(folder).replace("&#160;", " ")


def test_a_session_that_another_daemon_has_open_is_joined_there(
    project: Path, env: Mapping[str, str]
) -> None:
    """As it is when an editor has it open: each sees the prompts of the other, until one leaves."""
    first = Screened(project, env, "chat", "--model", "offline-1")
    first.wait_for("of 32k")
    first.type("what is in a.py?\r")
    first.wait_for("built-in model")
    second = Screened(project, env, "chat", "--resume")
    second.wait_for("this is the same conversation")
    second.wait_for("built-in model")
    second.type("what is in notes.md?\r")
    first.wait_for("» what is in notes.md?")
    first.wait_for("• notes.md:1")
    second.wait_for("• notes.md:1")
    second.type("/clear\r")
    second.wait_for("A new conversation begins; /resume")
    first.type("what is in gone.md?\r")
    first.wait_for("» what is in gone.md?")
    second.type("/resume\r")
    second.wait_for("go on with")
    second.type("\r")
    second.wait_for("» what is in gone.md?")
    first.type("\x04")
    assert first.end() == 0
    second.wait_for("another daemon goes on with the conversation")
    second.type("what is in a.py again?\r")
    second.wait_for("» what is in a.py again?")
    second.wait_for(lambda: second.text.count("• a.py:1 answer") >= 2)
    second.type("\x04")
    assert second.end() == 0
    assert not list((Path(env["INDUSAGI_HOME"]) / "run").glob("*.sock")), "no socket is left"


DATABASE = {"question": "Which database?", "choices": ["Postgres", "SQLite"]}
TABLES = {"question": "Which tables?", "choices": ["users", "logs"], "multiple": True, "default": "logs"}
NAME = {"question": "Which name?"}


def asks(number: int, *questions: Mapping[str, object]) -> Scene:
    call = Called(f"c{number}", "ask", (json.dumps({"questions": questions}),))
    return (call, Spent(900, 20), Ended("tool_calls"))


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[tuple[FakeProvider, Mapping[str, str]]]:
    """Give a provider of a model that asks twice, and the environment of its daemon."""
    scenes: Sequence[Scene] = (asks(1, DATABASE), asks(2, DATABASE, TABLES, NAME), says("I will."))
    with provider_in_thread(scenes) as provider:
        home = {"HOME": str(tmp_path), "INDUSAGI_HOME": str(tmp_path / "home"), "TERM": "xterm-256color"}
        yield provider, {**provider_env(provider), **home}


def told(provider: FakeProvider) -> str:
    """Return the results of calls in the newest request."""
    found = re.findall(r'The user [^"]*', json.dumps(provider.sent[-1]))
    return " | ".join(each.replace("\\n", " ").rstrip("\\") for each in found)


def test_questions_of_the_agent_are_answered_by_key_row_and_line(
    project: Path, asking: tuple[FakeProvider, Mapping[str, str]]
) -> None:
    provider, env = asking
    chat = Screened(project, env, "chat", "--model", "anthropic:claude-sonnet-4-5")
    chat.wait_for("»")
    chat.type("do it\r")
    chat.wait_for("[2] SQLite")
    chat.type("2")
    chat.wait_for("? Sidecar asks: 3 questions")
    chat.wait_for("[a]nswer")
    chat.type("a")
    chat.wait_for("Which database?  (Enter chooses")
    chat.type("\x1b[B\r")
    chat.wait_for("Which tables?, the numbers of your choices [logs]  (Enter answers")
    chat.type("1, 2\r")
    chat.wait_for("Which tables?: users, logs")
    chat.wait_for("Which name?  (Enter answers")
    chat.type("main\r")
    chat.wait_for("I will.")
    chat.type("\x04")
    assert chat.end() == 0, chat.text
    assert told(provider) == (
        "The user answered: Which database? SQLite | The user answered: Which database? SQLite "
        "Which tables? users, logs Which name? main"
    )


@pytest.mark.parametrize("command", [("chat", "--plain"), ("run", "do it")])
def test_questions_are_answered_line_by_line(
    project: Path, asking: tuple[FakeProvider, Mapping[str, str]], command: Sequence[str]
) -> None:
    provider, env = asking
    shown = Screened(project, env, *command, "--model", "anthropic:claude-sonnet-4-5")
    if command[0] == "chat":
        shown.wait_for("»")
        shown.type("do it\n")
    shown.wait_for("[n]o answer:")
    shown.type("1\n")
    shown.wait_for("[a]nswer, [n]o answer:")
    shown.type("a\n")
    for question, answer in (("Which database?, 1 to 2", "2"), ("[logs]:", ""), ("Which name?:", "main")):
        shown.wait_for(question)
        shown.type(f"{answer}\n")
    shown.wait_for("I will.")
    shown.type("\x04")
    assert shown.end() == 0, shown.text
    assert "Which database? SQLite Which tables? logs Which name? main" in told(provider)


def test_run_without_a_terminal_declines_and_says_so(
    project: Path, asking: tuple[FakeProvider, Mapping[str, str]]
) -> None:
    provider, env = asking
    ran = subprocess.run(
        [*SIDECAR, "run", "--model", "anthropic:claude-sonnet-4-5", "do it"],
        cwd=project,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "I will.\n")
    for question in ("Which database?", "3 questions"):
        assert f"not answered: {question}; there is no terminal to ask in" in ran.stderr
    assert told(provider).count("The user declined to answer.") == 2


DELEGATED: Sequence[Scene] = (
    (
        Called("c1", "task", (json.dumps({"title": "Look", "prompt": "Look around."}),)),
        Spent(900, 20),
        Ended("tool_calls"),
    ),
    (Called("c2", "read", (json.dumps({"path": "a.py"}),)), Spent(900, 20), Ended("tool_calls")),
    (Called("c3", "ls", (json.dumps({"path": "."}),)), Spent(900, 20), Ended("tool_calls")),
    says("It has ten lines."),
    says("It is delegated."),
    says("Ninety words."),
)


def test_a_sub_agent_is_seen_at_its_call_and_opened(project: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "INDUSAGI_HOME": str(tmp_path / "home"), "TERM": "xterm-256color"}
    with provider_in_thread(DELEGATED) as served:
        env = {**provider_env(served), **home}
        chat = Screened(project, env, "chat", "--model", "anthropic:claude-sonnet-4-5")
        chat.wait_for("»")
        chat.type("delegate it\r")
        chat.wait_for("It is delegated.")
        chat.wait_for("· Sub-agent: Look\n  Read a.py\n  List .\n  It has ten lines.")
        chat.wait_for("opens the sub-agent")
        named = re.search(r"Look: /resume (\w+) opens the sub-agent", chat.text)
        assert named is not None
        chat.type(f"/resume {named[1]}\r")
        chat.wait_for("» Your task:")
        chat.type("how many words?\r")
        chat.wait_for("Ninety words.")
        chat.type("\x03\x03\x03")
        assert chat.end() == 130, chat.text
