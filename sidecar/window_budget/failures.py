"""Failures in the output of commands and tools, found by their shape.

An exit code alone does not tell: output piped through ``tail`` ends with code 0, and a test run prints
hundreds of lines of which one names the fault. Compilers, test runners, interpreters, package managers,
shells and HTTP each have their shapes, and systems have messages in several languages.

Each pattern looks at single lines and has bounded repetitions, so that the work follows the text searched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from sidecar.text.clip import one_line

MAX_LEAD = 160
"""How much may stand before the name of an error on its line."""

ERROR_CHARS = 400
"""How much of a telling line is kept."""

_TELLING = """\
rror|xception|anic|atal|FAIL|failed|failure|CONFLICT|Segmentation|Aborted|Killed|BackOff|ErrImage|OutOfMemory\
|HTTP|status|response|make|** (|went wrong|SQLSTATE[|not found|Not Found|Uncaught|Unhandled|nauthorized\
|orbidden|Gateway|rspec ./|not loaded|not defined|nable |annot |ould not |denied|gefunden|Failed to \
|ermission|irectory|irectorio|ichtigung|introuvable|encontrad|trovat|negad|negat|polecenia|erweigert\
|attempt to|syntax|undefined|unexpected|ERR"""
_FOREIGN = """\
●|✕|✗|✘|irectório|dostępu|каталога|найдена|доступе|目录|命令|权限|ありません|見つかりません|없습니다|없음|거부"""
_TELLS, _FOREIGN_TELLS = _TELLING.split("|"), _FOREIGN.split("|")
_PROGRAMS = """
sh bash zsh dash ksh fish cat ls cp mv rm cd mkdir touch chmod chown find tar ln stat head tail ssh scp docker
grep sed curl E
"""
_SPEAKERS = frozenset([*_PROGRAMS.split(), "Caused by"])
"""Every line that names a failure holds one of the tells, begins with one of the speakers, or has a place."""

_PLACE = re.compile(r":\d{1,6}:\d{1,5}: (?!warning|note|info)|\b[A-Z]{2,8}-?\d{4,6}: |\bE[A-Z]{4,14}: ")
"""The place in a file where a compiler found a fault, or the number of a system's error."""

_NAMED = re.compile(
    r"(?:Error|Exception|Panic)\b(?![\w(]| at )|\b(?:[Ff]atal|FATAL|panic(?:ked)?) ?[:!(]"
    r"|\b(?:error|ERROR)(?:\[\w{1,12}\]| [A-Z]{1,6}\d{1,6}| \d{1,5})?(?: \([^()]{1,40}\))?: "
    r"|\bError from server \(|\bFAIL(?:ED|URE)?\b\s{0,3}[:\[(!]|\bFAILED \S{1,200}::|\bERR_[A-Z_]{3,60}\b"
    r"|^[A-Z]{2,8}-?\d{4,6}: |\bE[A-Z]{4,14}\b: |CONFLICT |Segmentation fault|Aborted \(core|^Killed\b"
    r"|OutOfMemory|OOMKilled"
    r"|\b(?:CrashLoop|ImagePull)BackOff\b|ErrImagePull|An error occurred \(|SQLSTATE\["
    r"|\bHTTP(?:/[\d.]{1,3})? [45]\d\d\b|\b(?:status|response)(?: code)?[ :=]{1,3}[45]\d\d\b"
    r"|\bmake(?:\[\d\])?: \*\*\* |^\s{0,8}[●✕✗✘] |^\s{0,8}\d{1,6}:\d{1,4}\s{1,4}error\s|^\*\* \(\w"
    r"|^CMake Error|^--- FAIL: |^\* What went wrong:|: undefined reference to |^curl: \(\d"
    r"|^[^\s:]{1,200}\.\w{1,8}:\d{1,6}:\d{1,5}: (?!warning|note|info)\S"
)
"""What a tool calls an error by name; enough by itself, where a failure is known, to tell the line."""

_OF_SYSTEMS = (
    r"(?:command not found|no such file or directory|permission denied|access denied|not a directory"
    r"|datei oder verzeichnis nicht gefunden|(?:kommando|befehl) nicht gefunden|keine berechtigung"
    r"|zugriff verweigert"
    r"|aucun fichier ou dossier de ce (?:type|nom)|commande introuvable|permission non accordée"
    r"|no existe el (?:fichero|archivo) o el directorio|orden no encontrada|permiso denegado"
    r"|(?:arquivo|ficheiro) ou diret[óo]rio inexistente|comando não encontrado|permissão negada"
    r"|file o directory non esistente|comando non trovato|permesso negato"
    r"|nie ma takiego pliku ani katalogu|nie znaleziono polecenia|brak dostępu"
    r"|нет такого файла или каталога|команда не найдена|отказано в доступе"
    r"|没有那个文件或目录|未找到命令|权限不够|沒有此一檔案或目錄"
    r"|そのようなファイルやディレクトリはありません|コマンドが見つかりません"
    r"|許可がありません|그런 파일이나 디렉터리가 없습니다|명령어를 찾을 수 없음|허가 거부)\.?\s{0,4}\Z"
)
"""The commonest messages of systems and shells, as they are at the end of a line."""

_SYSTEM = re.compile(rf".{{1,200}}?[:：] ?{_OF_SYSTEMS}", re.IGNORECASE)
_UNASKED = re.compile(
    r"\s{0,12}(?:E {1,8})?(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception)(?:: | in |$)"
    r"|(?:.{0,120}: )?(?:[Ff]atal )?(?:error|Error|ERROR)"
    r"(?:\[\w{1,12}\]| [A-Z]{1,6}\d{1,6}| \d{1,5})?(?: \(\w{1,40}\)| from server \(\w{1,40}\))?: "
    r"|(?:\w{1,20} )?[Ff]atal(?: error)?: |panic: |thread '.{1,80}' panicked at |(?:Caused by"
    r"|Unhandled exception)[:.] "
    r'|Exception in thread "|FAILED \S|--- FAIL: |npm (?:ERR!|error) |\s?ERR_[A-Z_]{3,60}\b'
    r"|make(?:\[\d\])?: \*\*\* "
    r"|.{0,120}(?:Segmentation fault|: command not found$|: undefined reference to |\b(?:CrashLoop"
    r"|ImagePull)BackOff\b"
    r"|\bOOMKilled\b)|(?:< )?HTTP/[\d.]{1,3} [45]\d\d|CONFLICT |\* What went wrong:|CMake Error|SQLSTATE\["
    r"|\s{0,8}[●✕✗✘] |\s{0,8}\d{1,6}:\d{1,4}\s{1,4}error\s|\*\* \(\w|PHP Fatal|curl: \(\d"
    r"|(?:Could not|Cannot|Unable to|Failed to) \w|An error occurred \("
    r"|\S{1,200}\.\w{1,8}:\d{1,6}: (?:attempt to|syntax|parse|undefined|undeclared|cannot|unexpected"
    r"|unknown|invalid)"
    r"|docker: Error response"
    r"|\[\w{1,20}\]: .{0,80}\bfailed\b|[^\s:]{1,200}\.\w{1,8}:\d{1,6}:\d{1,5}: (?!warning|note|info)\S"
    r"|(?:ba|z|da|k|fi)?sh: |(?:cat|ls|cp|mv|rm|cd|mkdir|touch|chmod|chown|find|tar|ln|stat|head|tail|ssh"
    r"|scp|docker|grep|sed): .{1,200}[:：] ?\S"
    r"|\W{0,6}(?:ERROR|FATAL|FAIL(?:ED|URE)?)\b[\]: ]\W{0,3}\w|(?:Uncaught|Unhandled)\b"
    r"|[A-Z]\w{0,60}Error \[|E: \w|gyp ERR! "
    r"|\W{0,4}(?:[A-Z][a-z]{1,20} )?(?:error|failure) in \S|(?:Compilation|Build|Installation"
    r"|Deployment) failed\b|\s{0,8}\d{1,3}\) \S.{0,160}:$"
    r"|(?:[Ff]atal|Internal) (?:\w{1,20} )?[Ee]rror\b|.{1,120}: error \w|[\w./-]{1,40}: (?:failed|unable"
    r"|cannot|could not) |rspec \./|error \S"
    r"|[\w./-]{1,40}: .{1,80}\b(?:not (?:loaded|found|defined)|denied)\b"
    r"|.{0,120}\b[45]\d\d (?:Bad (?:Request|Gateway)|Unauthorized|Forbidden|Not Found"
    r"|Conflict|Too Many|Internal|Service Un|Gateway T)"
)
"""How lines begin that are a failure even in the output of a command that ended well."""

_SOURCE = re.compile(
    r"\s{0,80}(?:(?:raise|throw|except|catch|import|from|def|class|func|fn|fun|return|if|elif|else|for"
    r"|while|assert"
    r"|const|let|var|public|private|async|await|use|export|try)\b(?!:)|//|#(?!\d)|/\*"
    r"|[\w.]{1,40}\.(?:info|debug|warn|error)\("
    r"|[\w.\[\]]{1,60} \+?= )"
)
_NO_ERRORS = re.compile(
    r"\b(?:0|no) (?:error|failure|exception)|\berrors?: ?(?:\W?(?:none|null|empty|0)\b|\[\])", re.IGNORECASE
)

_BOX = re.compile(r"^[│║┃▕|]\s?", re.MULTILINE)
_PREFIX = re.compile(r"\s{0,12}(?:E {1,8}|< )?")
_STACK = re.compile(r"\s{0,12}(?:at |-->|\.\.\.|File \")")
_HINT = re.compile(
    r"error|exception|panic|fatal|fail|denied|not found|no such|cannot|can't|unable|undefined|refused"
    r"|timed? ?out|invalid|missing|rejected|doesn't|does not|must |killed|aborted|out of memory|could not"
    r"|couldn't|unexpected"
    r"|unresolved|not in scope|unknown|nil value|not in the|already in use|no space"
    r"|fehler|fehlgeschlagen|nicht gefunden|verweigert|ungültig|keine berechtigung|konnte nicht"
    r"|kann nicht|nicht erlaubt"
    r"|falló|fallado|denegado|no se encontr|no se puede|no existe|no encontrad"
    r"|erreur|échec|échoué|introuvable|refusé|aucun fichier|non accordée|impossible"
    r"|erro\b|falhou|não encontrad|negad|inexistente|não foi possível|non esistente|non trovato|negato"
    r"|impossibile|errore"
    r"|ошибк|не найден|отказано|не удалось|нет такого|невозможно"
    r"|nie ma takiego|nie znaleziono|brak dostępu|odmowa|błąd|nie można|niet gevonden|geweigerd"
    r"|bulunamadı|reddedildi"
    r"|错误|失败|异常|找不到|没有那个文件|权限不够|拒绝|未找到|不存在|无法|無法|沒有"
    r"|エラー|失敗|例外|見つかりません|拒否|ありません|できません|오류|실패|찾을 수 없|없습니다|거부"
)
_NOISE = re.compile(
    r"(?:exit code|process exited|chunk id|wall time|original token|output:|script (?:failed|error)"
    r"|command (?:exited|failed|executed)|<\w+>|</\w+>|\[?exit |npm (?:ERR!|error) (?:A complete log"
    r"|code )|npm notice"
    r"|FAILURE: Build failed with|Traceback \(|```)",
    re.IGNORECASE,
)
_CALLS_AFTER = re.compile(r".{0,300}:\s{0,4}$|^npm (?:ERR!|error) code ")
"""A line that says that the next one tells."""

TELLS_LITTLE = 72
"""A line no longer than this has the next one with it, where that is indented deeper."""


def error_line(body: str) -> str:
    """Return the line of *body*, the output of something that failed, that names the fault best.

    A line that a tool calls an error comes first: the last of a traceback, the first of all else. Then a line
    that reads like one, in several languages. Where none does, the last line tells more than the first. Lines
    of programs are passed over, as an output may show the code beside the fault.

    >>> error_line("Exit code 1\\nTraceback (most recent call last):\\n  ...\\nKeyError: 'port'")
    "KeyError: 'port'"
    """
    is_trace = "Traceback" in body
    lines = [line for line in lines_of(body) if line.strip() and not _NOISE.match(line.strip())]
    named = [line for line in likely_lines(lines) if not is_source(line) and _NAMED.search(line)]
    best = named[-1 if is_trace else 0] if named else None
    best = best or next((line for line in lines if _HINT.search(line.lower()) and not is_source(line)), None)
    if best is None:
        return one_line(lines[-1] if lines else body, ERROR_CHARS)
    following = next((after for line, after in pairwise(lines) if line is best), "")
    is_deeper = _depth(following) > _depth(best) or "│" in body
    is_deeper = is_deeper and len(best) <= TELLS_LITTLE and not is_trace
    is_part = is_deeper and not _STACK.match(following) and not is_source(following)
    if is_part or _CALLS_AFTER.match(best):
        best = f"{best.strip()} {following.strip()}"
    best = _PREFIX.sub("", best, count=1)
    found = _NAMED.search(best, MAX_LEAD)
    return one_line(best[best.rfind(" ", 0, found.start()) + 1 :] if found else best, ERROR_CHARS)


def reports_itself(line: str) -> bool:
    """Whether *line* is a failure even where nothing else says so."""
    return any(pattern.match(line) for pattern in (_UNASKED, _SYSTEM))


def lines_of(output: str) -> list[str]:
    """Return the lines of *output*, without the sides of a box that is drawn around some."""
    return (_BOX.sub("", output) if "│" in output else output).splitlines()


def likely_lines(lines: Sequence[str]) -> list[str]:
    """Return the *lines* that may name a failure: a quick search that passes most over."""
    output = "\n".join(lines)
    tells = _TELLS if output.isascii() else [*_TELLS, *_FOREIGN_TELLS]
    parts = [part for part in tells if part in output]
    return [
        line
        for line in lines
        if any(part in line for part in parts)
        or line.partition(":")[0] in _SPEAKERS
        or (": " in line and _PLACE.search(line))
    ]


def is_source(line: str) -> bool:
    """Whether *line* is one of a program, or says that there is no error: it mentions an error at most.

    >>> is_source("    raise ValueError('x')"), is_source("ValueError: x")
    (True, False)
    """
    ends = line.rstrip().endswith(("{", ";"))
    return ends or _SOURCE.match(line) is not None or _NO_ERRORS.search(line) is not None


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def reported_failure(output: str) -> str | None:
    """Return the line that reports a failure in *output* of a command that ended well, or None.

    >>> reported_failure("12 passed"), reported_failure("collected 3\\nFAILED tests/test_a.py::test_x")
    (None, 'FAILED tests/test_a.py::test_x')
    """
    lines = lines_of(output)
    likely = likely_lines(lines)
    first = next((line for line in likely if not is_source(line) and reports_itself(line)), None)
    if first is None:
        return None
    is_trace = "Traceback" in output
    return error_line("\n".join(output.splitlines()[0 if is_trace else lines.index(first) :]))
