"""The package in a real Emacs on a real daemon: a day with it, and that it is clean."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.editors.conftest import (
    DAEMON,
    LANGUAGE_SERVER,
    ROOT,
    editor,
    kill_daemon,
    output_of,
    stored_text,
    write_foreign_session,
)
from tests.editors.day import Day
from tests.editors.scenes import ASKING, CODE, MODELS, QUESTIONS, RENAMED, WORDS, ask

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="drives a POSIX terminal"),
]

if os.name != "nt":
    from terminals import TIMEOUT_S, Screened

PACKAGE = ROOT / "editors" / "emacs" / "sidecar.el"
Keep = Callable[[str, str], None]


@pytest.fixture(scope="module")
def emacs() -> str:
    return editor("SIDECAR_EMACS", "emacs", r"Emacs (\d+)\.(\d+)", (29, 1))


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """An ``init.el`` as a user writes it, with a scripted model, and a key that evaluates ``asked.el``."""
    options, asked = json.dumps(json.dumps({"models": MODELS})), tmp_path / "asked.el"
    quoted = json.dumps(DAEMON).replace("[", "(").replace("]", ")").replace(",", "")
    path = tmp_path / "init.el"
    path.write_text(
        f"""
(add-to-list 'load-path {json.dumps(str(PACKAGE.parent))})
(setq suggest-key-bindings nil ; the hint may swallow the next key
      inhibit-startup-screen t auto-save-default nil create-lockfiles nil load-prefer-newer t)
(require 'sidecar)
(setq sidecar-command '{quoted} sidecar-model "fake-1"
      sidecar-options (json-parse-string {options} :object-type 'plist))
(defun ask-me () (interactive) (load {json.dumps(str(asked))} nil t))
(global-set-key (kbd "<f9>") #'ask-me)
""",
        encoding="utf-8",
    )
    return path


class Emacs(Screened):
    """Emacs in a terminal; it is asked for values through a file and a key."""

    def __init__(self, program: str, settings: Path, folder: Path, environment: dict[str, str]) -> None:
        self.asked = settings.with_name("asked.el")
        self.answer = settings.with_name("answer.txt")
        command = (program, "-nw", "-Q", "-l", str(settings))
        super().__init__(folder, environment, "a.py", columns=110, program=command)

    def command(self, name: str) -> None:
        self.type(f"\x1bx{name}\r")

    def value(self, expression: str) -> str:
        """Return what Emacs makes of an expression of Lisp."""
        self.answer.unlink(missing_ok=True)
        written = self.answer.with_suffix(".part")
        part, answer = json.dumps(str(written)), json.dumps(str(self.answer))
        write = f'(write-region (format "%s" {expression}) nil {part} nil 0)'
        self.asked.write_text(f"(progn {write} (rename-file {part} {answer}))", encoding="utf-8")
        self.type("\x1b[20~")
        deadline = time.monotonic() + TIMEOUT_S
        while not self.answer.exists():
            assert time.monotonic() < deadline, self.shown
            self.read_some(0.02)
        return self.answer.read_text(encoding="utf-8")

    @property
    def chat(self) -> str:
        """The conversation as its buffer has it."""
        return self.value('(with-current-buffer "*sidecar: project*" (buffer-string))')


def in_file(expression: str) -> str:
    return f'(with-current-buffer "a.py" (save-excursion {expression}))'


def line(number: int) -> str:
    return in_file(f"(goto-char (point-min)) (forward-line {number - 1}) (thing-at-point 'line t)")


def test_questions_of_the_agent_in_emacs(
    emacs: str, settings: Path, project: Path, environment: dict[str, str], keep: Keep
) -> None:
    settings.write_text(settings.read_text().replace('sidecar-model "fake-1"', 'sidecar-model "asks-1"'))
    screen = Emacs(emacs, settings, project, environment)
    screen.wait_for("answer = 42")
    screen.command("sidecar")
    screen.wait_for("Sidecar · asks-1")
    screen.type("do it\r")
    screen.wait_for("? Which database?")
    screen.wait_for("C-c C-a answers the question")
    keep("form", screen.shown)
    screen.type("\x03\x01")
    screen.wait_for("Which database? ")
    screen.type("SQLite\r")
    screen.wait_for("? 3 questions")
    screen.type("\x03\x01")
    screen.wait_for("3 questions (default Answer):")
    screen.type("\r")
    screen.wait_for(lambda: screen.screen.display[-1].startswith("Which database?"))
    screen.type("Postgres\r")
    screen.wait_for("Which tables? (default logs):")
    screen.type("logs,users\r")
    screen.wait_for("Which name? (default main):")
    screen.type("mains\r")
    screen.wait_for("So be it.")
    assert "? 3 questions" in screen.chat
    keep("form answered", screen.shown)
    screen.type("\x18\x03")
    assert screen.end() == 0
    answers = "Which database? Postgres\\nWhich tables? logs, users\\nWhich name? mains"
    assert answers in stored_text(environment)


def test_a_day_in_emacs(
    emacs: str, settings: Path, project: Path, environment: dict[str, str], keep: Keep
) -> None:
    write_foreign_session(Path(environment["HOME"]), project)
    screen = Emacs(emacs, settings, project, environment)
    screen.wait_for("answer = 42")

    day = Day()
    day.step("answer")
    screen.command("sidecar")
    screen.wait_for("Sidecar · fake-1")
    screen.type("what is in a.py?\r")
    screen.wait_for("reason 39")
    screen.wait_for("┃")
    begun = "» what is in a.py?\n\n· thinking\n  First I read.\n"
    assert screen.chat.startswith(begun)
    assert "I look at it.\n\n· Read a.py  ✓\n" in screen.chat
    screen.wait_for(lambda: "reason 39" in screen.shown)  # the window follows the end
    keep("1 answer", screen.shown)

    day.step("allow")
    edit = "(goto-char (point-min)) (forward-line 9) (delete-line) (insert \"mine = 'ünsaved'\\n\")"
    screen.value(in_file(f"{edit} (forward-line -1) (setq my-marker (point-marker)) (undo-boundary)"))
    screen.type("make it 43\r")
    screen.wait_for("+answer = 43")
    screen.wait_for("waiting for you")
    keep("2 question", screen.shown)
    screen.type("\x03\x01")
    screen.wait_for("(Sidecar?)")
    screen.type("\r")  # answers nothing
    assert screen.value(line(1)) == "answer = 42\n"
    screen.type("y")
    screen.wait_for("It is 43 now.")
    keep("3 edited", screen.shown)
    assert screen.value(line(1)) == "answer = 43\n"
    assert screen.value(line(10)) == "mine = 'ünsaved'\n"
    assert screen.value(in_file("(goto-char my-marker) (line-number-at-pos)")) == "10"
    assert (project / "a.py").read_text().startswith("answer = 42\n"), "it is for the user to save"
    screen.value(in_file("(let ((last-command nil)) (undo-only 1))"))
    assert screen.value(line(1)) + screen.value(line(10)) == "answer = 42\nmine = 'ünsaved'\n", "one step"
    screen.value(in_file("(let ((last-command nil)) (undo-redo 1))"))
    assert screen.value(line(1)) == "answer = 43\n"

    day.step("steer")
    screen.type("run it\r")
    screen.wait_for("? Run touch made-by-the-model")
    screen.type("be quick\x03\x13")
    screen.type("\x03\x01")
    screen.wait_for("(Sidecar?)")
    screen.type("n")
    screen.wait_for("I was quick.")
    assert "» be quick\n" in screen.chat
    assert not (project / "made-by-the-model").exists()

    day.step("compact")
    screen.type("\x1b<")
    screen.command("sidecar-preview")
    screen.wait_for(lambda: "» /preview" in screen.chat)
    point = screen.value('(window-point (get-buffer-window "*sidecar: project*"))')
    assert point == "1", "a window that was scrolled stays where it is"
    screen.wait_for(lambda: "» what is in a.py?" in screen.shown)
    screen.type("\x1b>")
    screen.command("sidecar-compact")
    screen.wait_for("restored as now: a.py")
    screen.wait_for("done, ")
    keep("4 compacted", screen.shown)
    screen.command("sidecar-transcript")
    screen.wait_for("*sidecar transcript.md*")
    assert screen.value("(string-search \"mine = 'ünsaved'\" (buffer-string))") != "nil"
    screen.type("\x18o")
    screen.command("sidecar-compare")
    screen.wait_for("*Ediff Control Panel*")
    keep("5 compared", screen.shown)
    screen.type("qy")
    screen.value('(progn (delete-other-windows) (switch-to-buffer "*sidecar: project*"))')
    day.step("undo")
    screen.type("/expand\r")
    screen.wait_for("expansion  done, ")
    screen.command("sidecar-undo")
    screen.wait_for("expansion  undone")
    screen.command("sidecar-undo")
    screen.wait_for("compaction  undone")

    day.step("rewind")
    screen.command("sidecar-rewind")
    screen.wait_for("Go back to before")
    screen.type("2\t")
    screen.wait_for("2 make it 43")
    screen.type("\r")
    screen.wait_for("Take the changes of files back too?")
    screen.type("y")
    screen.wait_for("· a.py: restored")
    assert screen.value(line(1)) == "answer = 42\n"

    day.step("parts")
    screen.type("/model shouts-1\r")
    screen.wait_for(lambda: "Model: shouts-1" in screen.chat)
    screen.type("\x18\x06words.txt\r")
    screen.wait_for("four")
    screen.type("\x1b<\x00\x0e\x0e\x0e\x0e\x0e")
    screen.command("sidecar-change")
    screen.wait_for("Change lines 1 to 5:")
    screen.type("shout\r")
    screen.wait_for("C-c C-t Refuse part")
    screen.wait_for("THREE")
    screen.command("sidecar-answer")
    screen.type("\x1b<\x0e\x0e\x03\x14")
    screen.wait_for("this part is refused")
    keep("6 parts", screen.shown)
    screen.type("\x03\x03")
    words = '(with-current-buffer "words.txt" (buffer-string))'
    screen.wait_for(lambda: screen.value(words) == "ONE\ntwo\nthree\nfour\nFIVE\n")
    screen.wait_for(lambda: "I have shouted." in screen.chat)
    screen.type("\x18\x13")
    screen.wait_for(lambda: (project / "words.txt").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n")
    screen.value(
        '(progn (delete-other-windows) (switch-to-buffer "*sidecar: project*") (goto-char (point-max)))'
    )
    screen.type("/model fake-1\r")
    screen.wait_for(lambda: "Model: fake-1" in screen.chat)

    day.step("kill")
    kill_daemon(screen.pid)
    screen.wait_for("The daemon was ended by signal 9.  It is started again")
    screen.type("and now?\r")
    screen.wait_for("reason 39")
    screen.wait_for(lambda: "» and now?\n\n· thinking\n  First I read.\n" in screen.chat)
    keep("6 after the kill", screen.shown)

    day.step("resume")
    screen.command("sidecar-new")
    screen.wait_for(lambda: screen.chat == "» ")
    screen.command("sidecar-resume")
    screen.wait_for("\nConversation:")
    screen.type("\t")
    screen.wait_for("Conversation: what is in a.py?")
    screen.type("\r")
    screen.wait_for(lambda: "» and now?\n\n· thinking\n  First I read.\n" in screen.chat)

    day.step("import")
    screen.command("sidecar-import")
    screen.wait_for("\nConversation of another agent:")
    screen.type("\t")
    screen.wait_for("Conversation of another agent: a question of before (claude-code")
    screen.type("\r")
    screen.wait_for(lambda: "» a question of before\n\nan answer of before" in screen.chat)
    keep("7 import", screen.shown)
    screen.type("\x18\x03")
    screen.wait_for("Save file")
    screen.type("nyes\r")
    assert screen.end() == 0
    day.end()


def batch(emacs: str, settings: Path, folder: Path, environment: dict[str, str], *forms: str) -> str:
    arguments = [part for form in forms for part in ("--eval", form)]
    return output_of([emacs, "--batch", "-l", str(settings), *arguments], folder, environment)


def test_the_region_is_changed_in_its_text_in_emacs(
    emacs: str, settings: Path, project: Path, environment: dict[str, str], keep: Keep
) -> None:
    settings.write_text(settings.read_text().replace('sidecar-model "fake-1"', 'sidecar-model "shouts-1"'))
    screen = Emacs(emacs, settings, project, environment)
    screen.wait_for("answer = 42")
    screen.type("\x18\x06words.txt\r")
    screen.wait_for("five")
    screen.type("zero, unsaved\r\x00\x0e\x0e\x0e\x0e")
    screen.command("sidecar-change")
    screen.wait_for("Change lines 2 to 5:")
    screen.type("shout\r")
    screen.wait_for("It goes beyond the region! C-c C-c Allow  C-c C-k Reject  C-c C-t Refuse part")
    screen.wait_for("THREE")
    keep("change", screen.shown)
    screen.command("sidecar-answer")
    screen.type("\x03\x14")
    screen.wait_for("this part is refused")
    screen.wait_for(lambda: "ONE" not in screen.shown)
    screen.type("\x1b>\x03\x05")
    screen.wait_for("nothing is changed before you allow it")
    screen.wait_for("*edit string*")
    screen.type("\x05, yes\x03\x03")
    screen.wait_for("FIVE, yes")
    keep("edited", screen.shown)
    screen.type("\x03\x03")
    text = '(with-current-buffer "words.txt" (buffer-string))'
    screen.wait_for(lambda: screen.value(text) == "zero, unsaved\none\ntwo\nTHREE\nfour\nFIVE, yes\n")
    screen.wait_for(lambda: "I have shouted." in screen.chat)
    screen.wait_for(lambda: "Refuse part" not in screen.shown)
    assert (project / "words.txt").read_text() == WORDS, "it is for the user to save"
    assert "the user kept 1 of 3 hunks as proposed, refused 1, edited 1" in stored_text(environment)

    screen.command("sidecar-change")
    screen.wait_for("Change line 7:")
    screen.type("what is this line?\r")
    screen.wait_for("Nothing was asked; M-x sidecar shows the answer")
    screen.command("sidecar-change")
    screen.type("calm down\r")
    screen.wait_for("nothing")
    screen.type("\x03\x0b")
    screen.wait_for(lambda: "As you like." in screen.chat)
    assert screen.value(text).startswith("zero, unsaved\n")
    screen.type("\x18\x03")
    screen.wait_for("Save file")
    screen.type("nyes\r")
    assert screen.end() == 0


def test_the_package_compiles_without_a_warning_and_its_words_are_checked(
    emacs: str, settings: Path, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    compiled = json.dumps(str(tmp_path / "sidecar.elc"))
    source = json.dumps(str(PACKAGE))
    said = batch(
        emacs,
        settings,
        project,
        environment,
        f"(setq byte-compile-error-on-warn t byte-compile-dest-file-function (lambda (_) {compiled}))",
        f"(unless (byte-compile-file {source}) (kill-emacs 1))",
        f"(progn (require 'checkdoc) (checkdoc-file {source}))",
    )
    assert "sidecar.el:" not in said


def test_completion_knows_commands_and_files(
    emacs: str, settings: Path, project: Path, environment: dict[str, str]
) -> None:
    said = batch(
        emacs,
        settings,
        project,
        environment,
        '(find-file "a.py")',
        "(sidecar)",
        "(while (not (sidecar--talk-sid sidecar--talk)) (accept-process-output nil 0.05))",
        '(progn (insert "/comp") (message "offered %s" (nth 2 (sidecar-complete))))',
        '(progn (sidecar--take-input) (insert "see @a") (message "offered %s" (nth 2 (sidecar-complete))))',
        "(sidecar--take-input)",
    )
    assert "offered (/compact" in said
    assert "@a.py" in said


def test_the_model_asks_the_language_servers_of_the_editor(
    emacs: str, settings: Path, project: Path, environment: dict[str, str]
) -> None:
    """Eglot's server is asked for Python, and Emacs itself for its own Lisp."""
    for name, text in {**CODE, "c.el": "(sidecar--point-at nil)\n"}.items():
        (project / name).write_text(text, encoding="utf-8")
    script = [ask("definition", path="c.el", symbol="sidecar--point-at"), *ASKING["asking"]["scripted"]]
    options = json.dumps(json.dumps({"models": {"asking": {"scripted": script}}}))
    server = json.dumps([sys.executable, str(LANGUAGE_SERVER)]).translate(str.maketrans("[],", "() "))
    said = batch(
        emacs,
        settings,
        project,
        environment,
        f'(setq sidecar-model "asking" sidecar-options (json-parse-string {options} :object-type \'plist))',
        f"(progn (require 'eglot) (setq eglot-server-programs '((python-mode . {server}))))",
        '(find-file "a.py")',
        "(call-interactively #'eglot)",
        '(progn (goto-char (point-min)) (insert "# typed\n"))',
        "(defvar talk (sidecar--here))",
        "(defvar sid (sidecar--sid-of talk))",
        '(sidecar--wait talk "sidecar/session/setConfigOption"'
        ' (list :sid sid :configId "permissions" :value "allowEdits"))',
        '(sidecar--wait talk "sidecar/turn/run"'
        ' (list :sid sid :input (vector (list :type "text" :text "look"))))',
        '(dolist (node (plist-get (sidecar--wait talk "sidecar/session/read" (list :sid sid)) :nodes))'
        ' (dolist (block (plist-get node :blocks)) (when (equal (plist-get block :kind) "tool_result")'
        ' (message "said %s" (json-serialize (list :output (plist-get block :output)))))))',
        '(message "said %s" (json-serialize (list :output (buffer-string))))',
    )
    lines = [line.removeprefix("said ") for line in said.splitlines() if line.startswith("said ")]
    lisp, *outputs, buffer = (json.loads(line)["output"] for line in lines)
    assert re.fullmatch(rf"{re.escape(str(PACKAGE))}:\d+", lisp)
    assert outputs == [result for _, result in QUESTIONS]
    assert buffer == RENAMED


def test_a_command_without_a_conversation_says_what_to_do(
    emacs: str, settings: Path, project: Path, environment: dict[str, str]
) -> None:
    def refused(command: str) -> str:
        return f'(condition-case why ({command}) (user-error (message "{command}: %s" (cadr why))))'

    names = ("resume", "import", "interrupt", "answer", "compare", "rewind")
    said = batch(
        emacs,
        settings,
        project,
        environment,
        "(setq text-quoting-style 'grave)",
        '(find-file "a.py")',
        *(refused(f"sidecar-{name}") for name in names),
        "(setq completing-read-function (lambda (_prompt choices &rest _) (car choices)))",
        "(sidecar-choose-model)",
        '(progn (sidecar-transcript) (message "shown in %s" (buffer-name)))',
    )
    assert [line for line in said.splitlines() if line.startswith(("sidecar-", "shown"))] == [
        "sidecar-resume: There is no conversation about this folder yet; `sidecar' begins one",
        "sidecar-import: There is no conversation of another agent about this folder",
        "sidecar-interrupt: Nothing runs",
        "sidecar-answer: Nothing is asked",
        "sidecar-compare: Nothing was compacted yet; `sidecar-compact' does it",
        "sidecar-rewind: There is no prompt to go back to yet",
        "shown in *sidecar transcript.md*",
    ]


def test_every_command_is_described() -> None:
    source = PACKAGE.read_text(encoding="utf-8")
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    parts = source.split("\n(defun ")[1:]
    names = [part.split()[0] for part in parts if "(interactive" in part and not part.startswith("sidecar--")]
    assert len(names) > 20
    assert [name for name in names if f"`{name}`" not in readme] == []


KEEP: Final = {"path": "a.py", "old_text": "unsaved", "new_text": "kept"}
ELSEWHERE: Final = [
    [{"toolCall": {"name": "read", "input": {"path": "a.py"}}}],
    [{"toolCall": {"name": "edit", "input": KEEP}}],
    [{"text": "done"}],
]


def test_a_file_on_another_machine_is_worked_on_where_it_is(
    emacs: str, settings: Path, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """The daemon runs there, and each side names the files in its own way."""
    from ssh_server import SshServer, find_sshd

    if (sshd := find_sshd()) is None:
        pytest.skip("there is no SSH server here; with apt: openssh-server")
    programs = tmp_path / "bin"
    programs.mkdir()
    variables = (f"{name}={value}" for name, value in environment.items() if name != "TERM")
    there = ("env", *variables, *DAEMON, "serve")
    options = json.dumps(json.dumps({"models": {"far-1": {"scripted": ELSEWHERE}}}))
    with tempfile.TemporaryDirectory() as folder:
        server = SshServer(Path(folder) / "ssh", sshd)
        server.write_client(programs, "box")
        try:
            said = batch(
                emacs,
                settings,
                tmp_path,
                # A name that is short enough for the socket of SSH.
                {**environment, "XDG_CACHE_HOME": folder, "PATH": f"{programs}:{os.environ['PATH']}"},
                f'(setq root {json.dumps(f"/ssh:box:{project}")} sidecar-model "far-1")',
                f"(setq sidecar-command '({' '.join(map(json.dumps, there))}))",
                f"(setq sidecar-options (json-parse-string {options} :object-type 'plist))",
                '(find-file (concat root "/a.py"))',
                '(progn (goto-char (point-max)) (insert "unsaved = 1\n"))',
                "(sidecar)",
                "(setq talk sidecar--talk sid (sidecar--sid-of talk))",
                '(sidecar--wait talk "sidecar/session/setConfigOption"'
                ' (list :sid sid :configId "permissions" :value "allowAll"))',
                '(sidecar--wait talk "sidecar/turn/run"'
                ' (list :sid sid :input [(:type "text" :text "edit it")]))',
                '(with-current-buffer "a.py" (goto-char (- (point-max) 17)) (message "text %S"'
                " (buffer-substring (point) (point-max))))",
                '(message "name %s" (sidecar--name (sidecar--uri (concat root "/a.py"))))',
                '(message "cwd %s" (plist-get (plist-get (sidecar--wait talk "sidecar/session/load"'
                " (list :sid sid)) :snapshot) :cwd))",
            )
        finally:
            server.stop()
    assert "\nkept = 1\n" in said
    assert f"cwd {project}\n" in said
    assert "name a.py\n" in said
    assert "kept" not in (project / "a.py").read_text(), "it is for the user to save"
