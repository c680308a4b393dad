"""Searching: as the files are now, in bounds, and never for ever."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from sidecar.capabilities import grep
from sidecar.capabilities.grep import GREP

pytestmark = pytest.mark.processes

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


async def test_lines_with_paths_relative_to_cwd(desk: Desk) -> None:
    desk.put("src/a.py", "import os\nimport re\n")
    desk.put("src/b.txt", "import os\n")
    desk.put("node_modules/c.py", "import os\n")
    assert await desk.output(GREP, pattern=r"import\s+os") == "src/a.py:1: import os\nsrc/b.txt:1: import os"
    assert await desk.output(GREP, pattern="IMPORT RE", ignore_case=True) == "src/a.py:2: import re"
    assert await desk.output(GREP, pattern="import", glob="*.txt") == "src/b.txt:1: import os"
    assert await desk.output(GREP, pattern="import re", path="src/a.py") == "src/a.py:2: import re"
    assert await desk.output(GREP, pattern="zzz") == "no matches in 2 files"
    assert desk.n_children == 5


async def test_files_in_older_encodings(desk: Desk) -> None:
    (desk.root / "a.txt").write_bytes("prix: 5 €, café\n".encode("cp1252"))
    (desk.root / "b.txt").write_bytes("编码是很重要的问题，需要小心处理。\n".encode("gbk") * 3)
    assert await desk.output(GREP, pattern="café") == "a.txt:1: prix: 5 €, café"
    assert (await desk.output(GREP, pattern="重要")).startswith("b.txt:1: 编码是很重要的问题")


async def test_context_and_separators(desk: Desk) -> None:
    desk.put("a", "1\nx\n3\n4\n5\nx\n7\n")
    desk.put("b", "x\n")
    assert await desk.output(GREP, pattern="x", context=1) == (
        "a-1- 1\na:2: x\na-3- 3\n--\na-5- 5\na:6: x\na-7- 7\nb:1: x"
    )
    assert await desk.output(GREP, pattern="x") == "a:2: x\na:6: x\nb:1: x"


async def test_a_bad_pattern_is_searched_as_text_with_a_note(desk: Desk) -> None:
    desk.put("a", "f(x)\n")
    output = await desk.output(GREP, pattern="f(")
    assert output.startswith("a:1: f(x)\n[the pattern is not a valid regular expression (")


async def test_unsaved_buffers_are_searched_as_they_stand(desk: Desk) -> None:
    desk.put("a", "old\n")
    desk.put(".gitignore", "secret\n")
    desk.put("secret", "x")
    desk.open("a", "typed\n")
    desk.open("draft", "typed too\n")
    desk.open("secret", "typed as well\n")
    assert await desk.output(GREP, pattern="typed|old") == "a:1: typed\ndraft:1: typed too"
    assert await desk.output(GREP, pattern="typed", path="draft") == "draft:1: typed too"
    assert await desk.output(GREP, pattern="typed", glob="d*") == "draft:1: typed too"


async def test_cuts_are_in_sight(desk: Desk) -> None:
    desk.put("a", "x\n" * 50)
    output = await desk.output(GREP, pattern="x", max_results=2)
    marker = "[cut: there may be more; narrow the pattern, glob or path, or raise max_results]"
    rest = "[a: searched up to line 2; for the rest search path=a, offset=3]"
    assert output == f"a:1: x\na:2: x\n{rest}\n{marker}"
    output = await desk.output(GREP, pattern="x", path="a", offset=50)
    assert output == "a:50: x"
    desk.max_output_chars = 600 + 16
    assert await desk.output(GREP, pattern="x") == f"a:1: x\na:2: x\n{marker}"


async def test_what_is_not_searched_is_said(desk: Desk) -> None:
    with (desk.root / "huge").open("wb") as file:
        file.truncate(1 << 30)
    desk.put("a", "x" + " " * 30_000 + "x\n")
    output = await desk.output(GREP, pattern="x")
    assert output.endswith("\n[1 lines searched only up to character 20000]")


async def test_a_large_file_is_searched_to_its_end_and_the_buffer_of_one_first(desk: Desk) -> None:
    path = desk.put("log", b"a line of the log\n" * 1_000_000 + b"the needle\nthe end\n")
    found = "log-1000000- a line of the log\nlog:1000001: the needle\nlog-1000002- the end"
    assert await desk.output(GREP, pattern="nee.le", context=1) == found
    assert await desk.output(GREP, pattern="line|needle", offset=1_000_001) == "log:1000001: the needle"
    desk.open("log", "typed needle\n")
    assert await desk.output(GREP, pattern="needle", path=str(path)) == "log:1: typed needle"


@pytest.mark.skipif(os.name == "nt", reason="POSIX links and names")
async def test_pipes_links_and_odd_names(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe")
    os.symlink(desk.put("../outside", "x\n"), desk.root / "link")
    os.symlink(desk.root, desk.root / "loop")
    desk.put("a\nb", "x\n")
    assert await desk.output(GREP, pattern="x") == "a\nb:1: x"


async def test_a_pattern_that_never_ends_is_ended(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "_TIMEOUT_S", 0.5)
    desk.put("a", "found aaa\n")
    desk.put("b", "a" * 40 + "!\n")
    output = await desk.output(GREP, pattern="(a+)+$")
    assert output == "a:1: found aaa\n[stopped after 0.5 s: simplify the pattern or narrow the path]"


async def test_a_pattern_that_never_ends_can_be_cancelled(desk: Desk) -> None:
    desk.put("b", "a" * 40 + "!\n")
    search = asyncio.ensure_future(desk.run(GREP, {"pattern": "(a+)+$"}))
    await desk.child_runs.wait()
    desk.cancel.cancel()
    async with asyncio.timeout(5):
        assert (await search).output == "grep: cancelled"


async def test_a_missing_path_fails(desk: Desk) -> None:
    assert "there is no folder" in await desk.failure(GREP, pattern="x", path="none")


async def test_outside_is_asked_for(desk: Desk) -> None:
    desk.put("../out/a", "x\n")
    assert await desk.output(GREP, pattern="x", path="../out") == f"{desk.root.parent.as_posix()}/out/a:1: x"
    desk.answer = False
    assert "not allowed" in await desk.failure(GREP, pattern="x", path="../out")


async def test_a_worker_that_cannot_work(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "_COMMAND", (grep._COMMAND[0], "-c", "raise SystemExit(3)"))
    assert "the search failed (exit code 3)" in await desk.failure(GREP, pattern="x")
