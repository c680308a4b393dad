"""The plugin in a real Neovim on a real daemon: a day with it, and what it says of what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.editors.conftest import (
    DAEMON,
    LANGUAGE_SERVER,
    ROOT,
    editor,
    kill_daemon,
    output_of,
    stored_text,
    tool_outputs,
    write_foreign_session,
)
from tests.editors.day import Day
from tests.editors.scenes import ASKING, CODE, MODELS, QUESTIONS, RENAMED, WORDS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="drives a POSIX terminal"),
]

if os.name != "nt":
    from terminals import Screened

PLUGIN = ROOT / "editors" / "neovim"
Keep = Callable[[str, str], None]


@pytest.fixture(scope="module")
def neovim() -> str:
    return editor("SIDECAR_NVIM", "nvim", r"NVIM v(\d+)\.(\d+)", (0, 10))


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """An ``init.lua`` as a user writes it, with a scripted model."""
    options = json.dumps({"sidecar": {"models": MODELS}})
    lines = (
        f"vim.opt.runtimepath:append({json.dumps(str(PLUGIN))})",
        "vim.opt.swapfile = false",
        "require('sidecar.question').settle_ms = 0",
        f"local options = vim.json.decode({json.dumps(options)})",
        f"local cmd = vim.json.decode('{json.dumps(DAEMON)}')",
        "require('sidecar').setup({ cmd = cmd, model = 'fake-1', init_options = options })",
        "_G.lines = function(first, last) return vim.api.nvim_buf_get_lines(",
        "  vim.fn.bufnr('a.py'), first, last, false) end",
        "_G.scroll = function(line) vim.api.nvim_win_set_cursor(vim.fn.win_findbuf(",
        "  vim.fn.bufnr('sidecar-chat://*'))[1], { line, 0 }) return line end",
        "_G.chat = function() return table.concat(vim.api.nvim_buf_get_lines(",
        "  vim.fn.bufnr('sidecar-chat://*'), 0, -1, false), '\\n') end",
    )
    path = tmp_path / "init.lua"
    path.write_text("\n".join(lines))
    return path


class Neovim(Screened):
    """Neovim in a terminal; its *program* is asked for values over a socket."""

    def __init__(self, program: str, settings: Path, folder: Path, environment: dict[str, str]) -> None:
        self.socket = str(settings.with_name("nvim.sock"))
        self.client = (program, "--clean", "--server", self.socket, "--remote-expr")
        command = (program, "--clean", "--listen", self.socket, "-u", str(settings))
        super().__init__(folder, environment, "a.py", columns=118, program=command)

    def command(self, text: str) -> None:
        """Type a command, from whatever mode."""
        self.type(f"\x1b\x1b:{text}\r")

    def value(self, expression: str) -> str:
        """Return what Neovim makes of a Lua expression."""
        asked = f"luaeval({json.dumps(expression)})"
        ran = subprocess.run([*self.client, asked], capture_output=True, text=True, timeout=60, check=False)
        return ran.stdout.strip()

    @property
    def chat(self) -> str:
        """The conversation as its buffer has it."""
        return self.value("chat()")


def test_questions_of_the_agent_in_neovim(
    neovim: str, settings: Path, project: Path, environment: dict[str, str], keep: Keep
) -> None:
    settings.write_text(settings.read_text().replace("model = 'fake-1'", "model = 'asks-1'"))
    vim = Neovim(neovim, settings, project, environment)
    vim.wait_for("answer = 42")
    vim.command("Sidecar do it")
    vim.wait_for("? Which database?")
    vim.wait_for(":Sidecar answer answers it")
    keep("form", vim.shown)
    vim.type("\x1b")
    vim.command("Sidecar answer")
    vim.wait_for("2: SQLite")
    vim.type("2\r")
    vim.wait_for("? 3 questions")
    vim.command("Sidecar answer")
    vim.wait_for("1: Answer")
    vim.type("1\r")
    vim.wait_for("1: Postgres")
    vim.type("1\r")
    vim.wait_for("Which tables? [1] users [2] logs: 2")
    vim.type(" 1\r")
    vim.wait_for("Which name?: main")
    vim.type("s\r")
    vim.wait_for("So be it.")
    keep("form answered", vim.shown)
    vim.command("qall!")
    assert vim.end() == 0
    answers = "Which database? Postgres\\nWhich tables? logs, users\\nWhich name? mains"
    assert answers in stored_text(environment)


def test_a_day_in_neovim(
    neovim: str, settings: Path, project: Path, environment: dict[str, str], keep: Keep
) -> None:
    write_foreign_session(Path(environment["HOME"]), project)
    vim = Neovim(neovim, settings, project, environment)
    vim.wait_for("answer = 42")

    day = Day()
    day.step("answer")
    vim.command("Sidecar")
    vim.wait_for("Enter sends")
    vim.type("what is in a.py?\r")
    vim.wait_for("reason 39")
    vim.wait_for("┃")
    assert vim.chat.startswith(
        "» what is in a.py?\n\n· thinking\n\nI look at it.\n\n· Read a.py\n\nIt has **42**"
    )
    vim.wait_for(lambda: "reason 39" in vim.shown)  # the window follows the end
    keep("1 answer", vim.shown)

    day.step("allow")
    vim.command("wincmd t | 10 | mark a")
    vim.command("10s/.*/mine = 'unsaved'/")
    vim.command("Sidecar make it 43")
    vim.wait_for("[y] Allow")
    vim.wait_for("answer = 43")
    vim.wait_for("waiting for you")
    assert vim.value("require('sidecar').status()").endswith("waiting for you")
    keep("2 question", vim.shown)
    vim.wait_for(lambda: "answer = 42" in vim.shown)  # as it is, beside what it would be
    vim.command("Sidecar answer")
    vim.type("\r")  # answers nothing
    vim.type("y")
    vim.wait_for("It is 43 now.")
    keep("3 edited", vim.shown)
    assert vim.value("lines(0, 1)[1] .. lines(-3, -1)[1] .. lines(9, 10)[1]") == (
        "answer = 43end = 2mine = 'unsaved'"
    )
    vim.command("wincmd t")
    assert vim.value('vim.fn.line("\'a")') == "10", "lines that are not changed keep their marks"
    assert (project / "a.py").read_text().startswith("answer = 42\n"), "it is for the user to save"
    vim.command("undo")
    assert vim.value("lines(0, 1)[1] .. lines(-2, -1)[1]") == "answer = 42end = 1"
    vim.command("redo")

    day.step("steer")
    vim.value("scroll(1)")
    vim.command("Sidecar run it")
    vim.wait_for("Run touch made-by-the-model   [y] Allow")
    vim.command("Sidecar steer be quick")
    vim.command("Sidecar answer")
    vim.type("n")
    vim.wait_for(lambda: "» be quick\n\nI was quick." in vim.chat)
    vim.wait_for(lambda: "» what is in a.py?" in vim.shown)  # a window that was scrolled stays where it is
    vim.value("scroll(#vim.fn.getbufline(vim.fn.bufnr('sidecar-chat://*'), 1, '$'))")
    assert not (project / "made-by-the-model").exists()

    day.step("compact")
    vim.command("Sidecar preview")
    vim.wait_for("» /preview")
    vim.command("Sidecar compact")
    vim.wait_for("compaction   done, ")
    vim.wait_for("restored as it is now: a.py")
    keep("4 compacted", vim.shown)
    vim.command("Sidecar transcript")
    vim.wait_for("transcript.md")
    restored = "table.concat(vim.api.nvim_buf_get_lines(vim.fn.bufnr('transcript.md'), 0, -1, false), '|')"
    vim.wait_for(lambda: "mine = 'unsaved'" in vim.value(restored))
    vim.command("bwipeout")
    vim.command("Sidecar compare")
    vim.wait_for("after.md")
    vim.wait_for("The facts behind a compaction")
    keep("5 compared", vim.shown)
    vim.command("tabclose")
    day.step("undo")
    vim.command("Sidecar /expand")
    vim.wait_for("expansion   done, ")
    vim.command("Sidecar undo")
    vim.wait_for("expansion   undone")
    vim.command("Sidecar undo")
    vim.wait_for("compaction   undone")

    day.step("rewind")
    vim.command("Sidecar rewind")
    vim.wait_for("Go back to before")
    keep("6 rewind", vim.shown)
    vim.type("3\r")
    vim.wait_for("And the files?")
    vim.type("1\r")
    vim.wait_for("went back")
    vim.wait_for(lambda: vim.value("lines(0, 1)[1]") == "answer = 42")

    day.step("parts")
    vim.command("Sidecar /model shouts-1")
    vim.wait_for(lambda: "Model: shouts-1" in vim.chat)
    vim.command("Sidecar shout")
    vim.wait_for("[x] Refuse a part [e] Edit")
    vim.command("Sidecar answer")
    vim.wait_for(lambda: "then/words.txt" in vim.value("vim.api.nvim_buf_get_name(0)"))
    vim.type("gg]cx")
    vim.wait_for(lambda: vim.value("vim.api.nvim_get_current_line()") == "three")
    keep("7 parts", vim.shown)
    vim.type("y")
    vim.wait_for(lambda: "I have shouted." in vim.chat)
    assert (project / "words.txt").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert "kept 2 of 3 hunks as proposed, refused 1" in stored_text(environment)
    vim.command("Sidecar /model fake-1")
    vim.wait_for(lambda: "Model: fake-1" in vim.chat)

    day.step("kill")
    kill_daemon(vim.pid)
    vim.wait_for("The daemon was ended by signal 9. It is started again")
    vim.command("Sidecar and now?")
    vim.wait_for("reason 39")
    assert "» and now?\n\n· thinking\n\nI look at it." in vim.chat
    keep("7 after the kill", vim.shown)

    day.step("resume")
    vim.command("Sidecar new")
    vim.wait_for(lambda: vim.chat == "")
    vim.command("Sidecar resume")
    vim.wait_for("Conversations of this folder")
    vim.type("1\r")
    vim.wait_for(lambda: "» and now?\n\n· thinking\n\nI look at it." in vim.chat)

    vim.command("Sidecar model")
    vim.wait_for("1:   Offline 1")
    vim.type("1\r")
    vim.wait_for("% of 32k")

    day.step("import")
    vim.command("Sidecar import")
    vim.wait_for("a question of before (claude-code)")
    keep("8 import", vim.shown)
    vim.type("1\r")
    vim.wait_for(lambda: "» a question of before\n\nan answer of before" in vim.chat)
    vim.command("qall!")
    assert vim.end() == 0
    day.end()


def test_the_selection_is_changed_beside_the_file_in_neovim(
    neovim: str, settings: Path, project: Path, environment: dict[str, str], keep: Keep
) -> None:
    settings.write_text(settings.read_text().replace("model = 'fake-1'", "model = 'shouts-1'"))
    vim = Neovim(neovim, settings, project, environment)
    vim.command("edit words.txt")
    vim.wait_for("five")
    vim.type("Ozero, unsaved\x1b")
    vim.command("2,5Sidecar change")
    vim.wait_for("Change lines 2 to 5:")
    vim.type("shout\r")
    vim.wait_for("[x] Refuse a part [e] Edit")
    vim.wait_for("the change goes beyond the selection")
    keep("change", vim.shown)
    windows = "#vim.api.nvim_tabpage_list_wins(0)"
    assert vim.value(windows) == "2", "the file itself, and the proposal beside it"
    assert "ONE" in vim.value("vim.api.nvim_get_current_line()")
    vim.type("xx")  # refused, and taken back in
    vim.wait_for(lambda: vim.value("vim.api.nvim_get_current_line()") == "ONE")
    vim.type("x")
    vim.wait_for(lambda: vim.value("vim.api.nvim_get_current_line()") == "one")
    vim.type("eGIyes, \x1bZZ")
    written = "table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '|')"
    vim.wait_for(lambda: vim.value(written) == "zero, unsaved|one|two|THREE|four|yes, FIVE")
    assert vim.value(windows + " .. tostring(vim.wo.diff) .. vim.fn.bufname()") == "1falsewords.txt"
    assert (project / "words.txt").read_text() == WORDS, "it is for the user to save"
    vim.type("u")
    vim.wait_for(lambda: vim.value(written) == "zero, unsaved|one|two|three|four|five")
    vim.wait_for(lambda: "I have shouted." in vim.chat)
    assert "the user kept 1 of 3 hunks as proposed, refused 1, edited 1" in stored_text(environment)

    vim.command("1Sidecar change what is this line?")
    vim.wait_for("nothing was asked; :Sidecar shows")
    vim.command("qall!")
    assert vim.end() == 0


def headless(neovim: str, settings: Path, folder: Path, environment: dict[str, str], *commands: str) -> str:
    arguments = [part for command in commands for part in ("-c", command)]
    return output_of(
        [neovim, "--clean", "--headless", "-u", str(settings), *arguments, "-c", "qall!"], folder, environment
    )


def test_checkhealth_names_what_is_missing(
    neovim: str, settings: Path, project: Path, environment: dict[str, str]
) -> None:
    shown = (
        "checkhealth sidecar",
        "lua print(table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n'))",
    )
    found = headless(neovim, settings, project, environment, *shown)
    assert "the daemon is " in found
    settings.write_text(settings.read_text() + "\nrequire('sidecar').setup({ cmd = { 'no-such-program' } })")
    found = headless(neovim, settings, project, environment, *shown)
    assert 'there is no program "no-such-program"' in found
    assert 'require("sidecar").setup({ cmd' in found


def test_what_the_user_sees_reaches_the_model(
    neovim: str, settings: Path, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "script.lua"
    script.write_text(
        """
        vim.cmd.edit("a.py")
        vim.api.nvim_buf_set_lines(0, 1, 2, false, { "b = 'typed'" })
        local problem = { lnum = 1, col = 0, severity = 1, message = "an odd name", source = "lint" }
        vim.diagnostic.set(vim.api.nvim_create_namespace("lint"), 0, { problem })
        vim.cmd("2Sidecar what about this?")
        local function is_answered() return pcall(chat) and chat():find("reason 39") end
        vim.wait(20000, is_answered)
        local daemon, read = require("sidecar.daemon"), nil
        local project = daemon.project()
        local function keep(found) read = found end
        daemon.request(project, "sidecar/session/read", { sid = project.sid }, keep)
        vim.wait(20000, function() return read end)
        print(vim.json.encode(read.nodes))
        """
    )
    (nodes,) = headless(neovim, settings, project, environment, f"luafile {script}").splitlines()[-1:]
    note, prompt = (node["blocks"][0]["text"] for node in json.loads(nodes)[:2])
    assert "- active file: a.py" in note
    assert "- selection: a.py line 2\n  b = 'typed'" in note
    assert "a.py:2: error: an odd name (lint)" in note
    assert prompt.startswith("what about this?\n\na.py, lines 2 to 2:\n```\nb = 'typed'\n```")


def test_the_model_asks_the_language_servers_of_the_editor(
    neovim: str, settings: Path, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    for name, text in CODE.items():
        (project / name).write_text(text, encoding="utf-8")
    script = tmp_path / "script.lua"
    options, server = json.dumps({"sidecar": {"models": ASKING}}), [sys.executable, str(LANGUAGE_SERVER)]
    script.write_text(
        f"""
        local options = vim.json.decode({json.dumps(options)})
        require("sidecar").setup({{ model = "asking", init_options = options }})
        vim.cmd("filetype on")
        vim.api.nvim_create_autocmd("FileType", {{ pattern = "python", callback = function(event)
          local command = vim.json.decode({json.dumps(json.dumps(server))})
          local config = {{ name = "tiny", cmd = command, root_dir = vim.fn.getcwd() }}
          vim.lsp.start(config, {{ bufnr = event.buf }})
        end }})
        vim.cmd.edit("a.py")
        local wanted = {{ bufnr = 0, method = "textDocument/hover" }}
        vim.wait(20000, function() return #vim.lsp.get_clients(wanted) > 0 end)
        vim.api.nvim_buf_set_lines(0, 0, 0, false, {{ "# typed" }})
        local daemon, read = require("sidecar.daemon"), nil
        local project = daemon.project()
        daemon.with_session(project, function()
          local params = {{ sid = project.sid, configId = "permissions", value = "allowEdits" }}
          daemon.request(project, "sidecar/session/setConfigOption", params, function()
            local input = {{ {{ type = "text", text = "look" }} }}
            daemon.request(project, "sidecar/turn/run", {{ sid = project.sid, input = input }}, function()
              local function keep(found) read = found end
              daemon.request(project, "sidecar/session/read", {{ sid = project.sid }}, keep)
            end)
          end)
        end)
        vim.wait(40000, function() return read end)
        print(vim.json.encode({{ read.nodes, vim.api.nvim_buf_get_lines(0, 0, -1, false) }}))
        """,
        encoding="utf-8",
    )
    (said,) = headless(neovim, settings, project, environment, f"luafile {script}").splitlines()[-1:]
    nodes, lines = json.loads(said)
    assert tool_outputs(nodes) == [result for _, result in QUESTIONS]
    assert "".join(f"{line}\n" for line in lines) == RENAMED
    assert (project / "a.py").read_text(encoding="utf-8") == CODE["a.py"], "it is for the user to save"


def test_a_command_without_a_conversation_says_what_to_do(
    neovim: str, settings: Path, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    names = ("resume", "import", "stop", "answer", "compare", "rewind")
    script = tmp_path / "script.lua"
    script.write_text(
        f"""
        vim.cmd.edit("a.py")
        local said = {{}}
        vim.notify = function(text) table.insert(said, text) end
        for at, name in ipairs(vim.json.decode({json.dumps(json.dumps(names))})) do
          vim.cmd("Sidecar " .. name)
          vim.wait(20000, function() return #said == at end)
        end
        print(vim.json.encode(said))
        """
    )
    (said,) = headless(neovim, settings, project, environment, f"luafile {script}").splitlines()[-1:]
    assert json.loads(said) == [
        "there is no conversation about this folder yet; :Sidecar begins one",
        "there is no conversation of another agent about this folder",
        "nothing runs",
        "nothing is asked",
        "nothing was compacted yet; :Sidecar compact does it",
        "there is no prompt to go back to yet",
    ]


def test_the_command_completes_its_words(
    neovim: str, settings: Path, project: Path, environment: dict[str, str]
) -> None:
    show = "lua print(vim.inspect(vim.fn.getcompletion('Sidecar re', 'cmdline')))"
    assert '{ "restart", "resume", "rewind" }' in headless(neovim, settings, project, environment, show)


def test_the_help_has_every_command(
    neovim: str, settings: Path, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    copy = tmp_path / "doc"
    copy.mkdir()
    text = (PLUGIN / "doc" / "sidecar.txt").read_text()
    (copy / "sidecar.txt").write_text(text)
    headless(neovim, settings, project, environment, f"helptags {copy}")
    listed = headless(
        neovim,
        settings,
        project,
        environment,
        "lua print(vim.json.encode(require('sidecar').complete('', 'Sidecar ')))",
    )
    readme = (PLUGIN / "README.md").read_text()
    words = json.loads(listed.strip().splitlines()[-1])
    assert len(words) > 15
    tags = (copy / "tags").read_text()
    assert (PLUGIN / "doc" / "tags").read_text() == tags, "run: nvim -c 'helptags editors/neovim/doc'"
    assert [word for word in words if f":Sidecar-{word}" not in tags] == []
    assert [word for word in words if word not in readme] == []
