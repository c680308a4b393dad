"""Failures in the output of commands and tools, found by their shape.

An exit code alone does not tell: output piped through ``tail`` ends with code 0, and a test run prints
hundreds of lines of which one names the fault. Compilers, test runners, interpreters, package managers,
shells and HTTP each have their shapes, and systems have messages in several languages.

Each pattern looks at single lines and has bounded repetitions, so that the work follows the text searched.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sidecar.window_budget.text import one_line

ERROR_CHARS = 400
"""How much of a telling line is kept."""

_NAMED = re.compile(
    r"(?<![\w.])[\w.]{0,60}(?:Error|Exception|Panic)\b.*"
    r"|\b(?:error|fatal|panic(?:ked)?|FAIL(?:ED|URE)?)\b\s{0,3}[:\[(!].*|\berror [A-Z]{1,6}\d{1,6}:.*"
    r"|\bE[A-Z]{4,14}\b: .*|CONFLICT .*|FAILED \S{1,200}::\S.*|Segmentation fault.*|Aborted \(core.*"
    r"|\bHTTP(?:/\d\.\d)? [45]\d\d\b.*|\b(?:status|response)(?: code)?[ :=]{1,3}[45]\d\d\b.*"
    r"|\bmake(?:\[\d\])?: \*\*\* .*"
)
"""What a tool calls an error by name; enough by itself, where a failure is known, to tell the line."""

_NAMED_BY = (
    *("rror", "xception", "anic", "fatal", "FAIL", "CONFLICT", "Segmentation", "Aborted", "HTTP"),
    *("status", "response", "make"),
)
_ERROR_NUMBER = re.compile(r"E[A-Z]{4,14}\b: ")
"""Every line with a name of an error holds one of these, and finding them costs a tenth of the names."""

_UNASKED = re.compile(
    r"^\s{0,12}(?:E {1,6})?(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception)(?:: .*|$)"
    r"|^(?:.{0,120}: )?(?:fatal )?error(?:\[\w{1,12}\]| [A-Z]{1,6}\d{1,6})?: .*|^fatal: .*|^panic: .*"
    r"|^thread '.{1,80}' panicked at .*|^FAILED \S{1,200}.*|^--- FAIL: .*|^npm (?:ERR!|error) .*"
    r"|^.{0,120}Segmentation fault.*|^make(?:\[\d\])?: \*\*\* .*|^.{0,120}: command not found$"
    r"|^< HTTP/[\d.]{1,3} [45]\d\d.*|^HTTP/[\d.]{1,3} [45]\d\d.*|^CONFLICT .*",
)
"""Lines that are a failure even in the output of a command that ended well."""

_UNASKED_BY = (
    *("rror", "xception", "fatal: ", "panic", "FAIL", "npm ERR", "Segmentation fault", "make"),
    *("command not found", "HTTP/", "CONFLICT "),
)
"""Every such line holds one of these, and most output holds none."""

_HINT = re.compile(
    r"error|exception|panic|fatal|fail|denied|not found|no such|cannot|can't|unable|undefined|refused"
    r"|timed? ?out|invalid|missing|rejected|doesn't|does not|must |killed|aborted|out of memory"
    r"|fehler|fehlgeschlagen|nicht gefunden|verweigert|ungültig|falló|fallado|denegado|no se encontr"
    r"|erreur|échec|échoué|introuvable|refusé|erro\b|falhou|não encontrad|negad|ошибк|не найден|отказано"
    r"|не удалось|错误|失败|异常|找不到|没有那个文件|权限不够|拒绝"
    r"|エラー|失敗|例外|見つかりません|拒否|오류|실패|찾을 수 없"
)
_NOISE = re.compile(
    r"(?:exit code|process exited|chunk id|wall time|original token|output:|script (?:failed|error)"
    r"|command exited|<\w+>|</\w+>|\[?exit |npm (?:ERR!|error) (?:A complete log|code )|npm notice)",
    re.IGNORECASE,
)
_CALLS_AFTER = re.compile(r"panicked at .{1,200}:$|^npm (?:ERR!|error) code ")


def error_line(body: str) -> str:
    """Return the line of *body*, the output of something that failed, that names the fault best.

    A line that a tool calls an error comes first: the last of a traceback, the first of all else. Then a line
    that reads like one, in several languages. Where none does, the last line tells more than the first.

    >>> error_line("Exit code 1\\nTraceback (most recent call last):\\n  ...\\nKeyError: 'port'")
    "KeyError: 'port'"
    """
    lines = [line for line in body.splitlines() if line.strip() and not _NOISE.match(line.strip())]
    may_be_named = (
        line
        for line in lines
        if any(part in line for part in _NAMED_BY) or ("E" in line and _ERROR_NUMBER.search(line))
    )
    named = [found.group() for line in may_be_named if (found := _NAMED.search(line))]
    panics = (
        f"{line.strip()} {after.strip()}"
        for line, after in pairwise(lines)
        if ("panic" in line or "npm " in line) and _CALLS_AFTER.search(line)
    )
    hints = (line for line in lines if _HINT.search(line.lower()))
    is_trace = "Traceback" in body
    best = next(panics, None) or (named[-1 if is_trace else 0] if named else None) or next(hints, None)
    return one_line(best or (lines[-1] if lines else body), ERROR_CHARS)


def reported_failure(output: str) -> str | None:
    """Return the line that reports a failure in *output* of a command that ended well, or None.

    >>> reported_failure("12 passed"), reported_failure("collected 3\\nFAILED tests/test_a.py::test_x")
    (None, 'FAILED tests/test_a.py::test_x')
    """
    parts = [part for part in _UNASKED_BY if part in output]
    if not parts:
        return None
    likely = (line for line in output.splitlines() if any(part in line for part in parts))
    found = [line for line in likely if _UNASKED.match(line)]
    return error_line("\n".join(found)) if found else None
