"""Failures by their shape: the line that tells, in outputs of many tools and languages."""

from __future__ import annotations

import pytest

from sidecar.window_budget.failures import error_line, reported_failure


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("", ""),
        ("\n  \n", ""),
        ("all quiet", "all quiet"),
        ("Exit code 1\nerror[E0425]: cannot find value `x`", "error[E0425]: cannot find value `x`"),
        ("Wall time: 1 s\nls: a: No such file or directory", "ls: a: No such file or directory"),
        ("warning: failed once\nTypeError: x is not a function", "TypeError: x is not a function"),
        ("compiling\nnothing to see\nline 40 of 80", "line 40 of 80"),
        (
            "thread 'main' panicked at src/a.rs:3:5:\nno entry for key",
            "thread 'main' panicked at src/a.rs:3:5: no entry for key",
        ),
        (
            "Traceback (most recent call last):\nKeyError\n\nTraceback (most recent call):\nValueError: b",
            "ValueError: b",
        ),
        (
            "npm ERR! code E404\nnpm ERR! 404 Not Found - GET left-pad",
            "npm ERR! 404 Not Found - GET left-pad",
        ),
        (
            "./run.sh: line 3: 812 Segmentation fault (core dumped) ./a.out",
            "./run.sh: line 3: 812 Segmentation fault (core dumped) ./a.out",
        ),
        ("< server: x\n< HTTP/1.1 503 Service Unavailable", "HTTP/1.1 503 Service Unavailable"),
        (
            "cat: geheim: Keine Berechtigung\ncat: geheim: Zugriff verweigert",
            "cat: geheim: Keine Berechtigung",
        ),
        ("编译中\n错误：找不到符号 foo\n结束", "错误：找不到符号 foo"),
        (
            "src/a.ts(3,1): error TS2304: Cannot find name 'x'.",
            "src/a.ts(3,1): error TS2304: Cannot find name 'x'.",
        ),
        ("    raise ValueError('x')\nlog.info('0 errors')\nKeyError: 'port'", "KeyError: 'port'"),
        (
            "│ Error: Invalid value\n│   The value of x is too long.",
            "Error: Invalid value The value of x is too long.",
        ),
        ("FAIL a.test.ts\n  ● sums › adds two\n\n    expect(received)", "● sums › adds two expect(received)"),
        (
            "CMake Error at CMakeLists.txt:3 (find_package):\n  Could not find zlib",
            "CMake Error at CMakeLists.txt:3 (find_package): Could not find zlib",
        ),
        ("ok\nstart: Kommando nicht gefunden.", "start: Kommando nicht gefunden."),
        ("sqlite3.OperationalError: no such column: a", "sqlite3.OperationalError: no such column: a"),
    ],
)
def test_the_error_line_is_the_error_itself(body: str, line: str) -> None:
    """The error itself comes before a line that merely mentions one; noise is never taken."""
    assert error_line(body) == line


@pytest.mark.parametrize(
    "output",
    [
        "12 passed in 3 s",
        "checking errors.py\nno error: all fine",
        "def fail(): raise ValueError('x')",
        "the exception is handled",
        "0 errors, 0 warnings",
        "lib/a.py:3:    raise ValueError('x')",
        "src/errors.go:12: // never fails",
    ],
)
def test_output_that_reports_nothing_is_no_failure(output: str) -> None:
    assert reported_failure(output) is None


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            "ok\nerror[E0382]: borrow of moved value: `x`\n  --> a.rs",
            "error[E0382]: borrow of moved value: `x`",
        ),
        ("a.c:3:1: error: expected ';'", "a.c:3:1: error: expected ';'"),
        ("fatal: not a git repository", "fatal: not a git repository"),
        ("panic: runtime error: index out of range [3]", "panic: runtime error: index out of range [3]"),
        ("E   AssertionError: expected 3 rows", "AssertionError: expected 3 rows"),
        ("bash: foo: command not found", "bash: foo: command not found"),
        ("make: *** [all] Error 2", "make: *** [all] Error 2"),
        ("cat: a: 没有那个文件或目录", "cat: a: 没有那个文件或目录"),
        ("start: Kommando nicht gefunden.", "start: Kommando nicht gefunden."),
        ("a.lua:3: attempt to index a nil value", "a.lua:3: attempt to index a nil value"),
        ("Could not find gem 'rack'", "Could not find gem 'rack'"),
        ("FAIL: test_sum (tests.test_a.ATest)", "FAIL: test_sum (tests.test_a.ATest)"),
        ("[ERROR] Failed to execute goal compile", "[ERROR] Failed to execute goal compile"),
        ("Uncaught ReferenceError: x is not defined", "Uncaught ReferenceError: x is not defined"),
        ("dpkg: error processing package zlib", "dpkg: error processing package zlib"),
        ("remote: Permission to a/b.git denied to bot.", "remote: Permission to a/b.git denied to bot."),
        ("upstream api returned 502 Bad Gateway", "upstream api returned 502 Bad Gateway"),
        ("bash: ab : commande introuvable", "bash: ab : commande introuvable"),
        ("api/a.go:4:7: undefined: total", "api/a.go:4:7: undefined: total"),
        (
            "* What went wrong:\nExecution failed for ':app:test'.",
            "* What went wrong: Execution failed for ':app:test'.",
        ),
        ("web-7d9f   0/1   CrashLoopBackOff   12 (3m ago)", "web-7d9f 0/1 CrashLoopBackOff 12 (3m ago)"),
        (
            'Error from server (NotFound): pods "a" not found',
            'Error from server (NotFound): pods "a" not found',
        ),
    ],
)
def test_a_failure_shows_in_the_output_of_a_command_that_ended_well(output: str, line: str) -> None:
    assert reported_failure(output) == line
