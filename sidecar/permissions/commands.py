"""Commands: the permissions that each part of a command line needs, by the table of known programs.

The problem: one answer about ``git status`` must not reach ``git push``. Neither may it reach ``git status``
with a flag that runs a program, in a folder with a configuration that does, or behind another program.

The invariant: a part is free, or has a key, or has neither. A free part reads inside the session's folders
and does nothing else. A key stands for a known command with nothing but known flags, or for one command word
for word in one folder. A part without a key asks each time. A line is covered when each of its parts is.
Computed words, and files outside to which the line is redirected, have no key.

Paths are resolved against every folder that an earlier ``cd`` may have led to, so that a branch of the line
that was not taken cannot hide one. Looks at the disk; runs in worker threads.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import escape, iglob
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import field

from sidecar._internal.values import Value
from sidecar.permissions.checks import CHECKS, Arguments, find_named_repository, looks_around, read_arguments
from sidecar.permissions.programs import find_program_inside, is_shell_inside, lies_inside
from sidecar.permissions.protected import SessionFolders, is_hidden, why_protected
from sidecar.permissions.repository import find_repository, has_submodules, names_programs, runs_hooks
from sidecar.permissions.rules import EDITS, EDITS_LABEL, Need, need_of_edit, need_of_reading
from sidecar.permissions.table import (
    GROUP_LABELS,
    HARMLESS_VARIABLES,
    PROGRAM_FOLDERS,
    PROXIES,
    ROUTINE,
    SHELL_STATE,
    TRANSPARENT,
    KnownCommand,
    find_entry,
)
from sidecar.text.clip import clip
from sidecar.text.shell import ShellSyntaxError, SimpleCommand, Word, parse_command_line
from sidecar.workspace.files import real_path
from sidecar.workspace.paths import is_inside

_MAX_FOLDERS: Final = 16
_MAX_MATCHES: Final = 500
_LABEL_CHARS: Final = 80
_SHOWN_CHARS: Final = 160

_PATHLESS: Final = frozenset(("none", "any", "text", "@test", "@date"))
"""Operands of free commands that are no paths."""

_STEPS_OF_FILES: Final = frozenset(("switch", "stash", "pull", "merge", "rebase"))
"""The commands of git that may bring other files."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][\w:.-]*\Z", re.ASCII)
_REF: Final = re.compile(r"(?!-)[\w./@^~{}:#+=,-]*\Z", re.ASCII)
_REMOTE: Final = re.compile(r"[A-Za-z0-9_][\w-]*\Z", re.ASCII)
_BRANCH: Final = re.compile(r"[A-Za-z0-9_][\w./@-]*\Z", re.ASCII)


def needs_of_command(line: str, cwd: Path, place: SessionFolders) -> tuple[Need, ...]:
    """Return the needs of the command *line* in the folder *cwd*."""
    try:
        commands = parse_command_line(line)
    except ShellSyntaxError as error:
        return (Need(text=clip(line, _SHOWN_CHARS), why=f"the line is not understood: {error}"),)
    folders: tuple[Path, ...] = (cwd,)
    if is_shell_inside(cwd, place.roots):
        why = "the shell, or the file that it reads first, lies in the session's folders"
        return (Need(text=clip(line, _SHOWN_CHARS), why=why),)
    needs: list[Need] = []
    is_moved = False
    for command in commands:
        judge = _Judge(command, folders, place, is_moved)
        needs += judge.needs_of_redirections()
        if not command.words and not command.assignments:
            continue
        need, *reads = judge.judge()
        needs += [need, *reads]
        is_moved = is_moved or judge.moves_links(need.scope or ())
        if need.words is not None and need.words[0] == "cd":
            target = os.path.expanduser(need.words[-1] if len(need.words) > 1 else "~")
            moved = (Path(os.path.normpath(folder / target)) for folder in folders)
            folders = tuple(dict.fromkeys((*folders, *moved)))
        if len(folders) > _MAX_FOLDERS:
            return (Need(text=clip(line, _SHOWN_CHARS), why="the line changes its folder too often"),)
    return tuple(needs)


class _Judge(Value):
    """One simple command, in one of *folders*; *outside* collects the paths outside that it names.

    *is_moved* says whether an earlier command of the line can put a link where a path leads now.
    """

    command: SimpleCommand
    folders: tuple[Path, ...]
    place: SessionFolders
    is_moved: bool = False
    outside: list[Path] = field(default_factory=list)

    def judge(self) -> tuple[Need, ...]:
        """Return the need of the command, and the needs of the files outside that it reads or changes."""
        words = self.command.words
        shown = " ".join("$..." if word.text is None else shlex.quote(word.text) for word in words)
        shown = clip(shown, _SHOWN_CHARS)
        if self.command.local_names:
            return (
                Need(text=shown or "an assignment", why="only this line reads the variable", is_free=True),
            )
        is_harmless = all(HARMLESS_VARIABLES.fullmatch(str(word.text)) for word in self.command.assignments)
        if not words or not is_harmless:
            return (Need(text=shown or "an assignment", why="it sets a variable"),)
        texts = tuple(word.text for word in words if word.text is not None)
        if len(texts) < len(words):
            if words[0].text == "echo" and all(word.is_own or word.is_literal for word in words):
                return (Need(text=shown, why="`echo` prints what this line computes", is_free=True),)
            return (Need(text=shown, why="the shell computes a part of it"),)
        bare = Need(text=shown, why="", words=texts)
        if any(word.is_pattern and (word.text or "")[0] in "*?[" for word in words):
            return (replace(bare, why="a pattern at the beginning of a word can become a flag"),)
        inner = self.unwrap()
        program, *rest = (str(word.text) for word in inner.command.words)
        need = inner.find_known()
        leaves = program == "cd" and any(text.startswith(("-", "+")) for text in rest)
        leaves = leaves or (program == "printf" and rest[:1] != [] and rest[0].startswith("-v"))
        if need is None and (program in SHELL_STATE or leaves):
            return (replace(bare, why=f"`{program}` changes the shell itself"),)
        if need is None and self.command.is_fed:
            return (replace(bare, why="a pipe feeds a program that is not known"),)
        if need is None:
            return (replace(inner.word_for_word(), text=shown),)
        if need.key == EDITS:
            others = [need_of_edit(path, self.place, is_inside=False) for path in inner.outside]
        else:
            others = [need_of_reading(path, os.path.isdir(path)) for path in inner.outside]
        return (replace(need, text=shown), *others)

    def moves_links(self, scope: tuple[str, ...]) -> bool:
        """Whether the known command *scope* can bring links, from another branch or from another folder."""
        if scope[:1] != ("mv",):
            return scope[:1] == ("git",) and not _STEPS_OF_FILES.isdisjoint(scope[1:2])
        paths = [folder / str(word.text) for word in self.command.words[1:-1] for folder in self.folders]
        return any(os.path.islink(path) or os.path.isdir(path) for path in paths)

    def needs_of_redirections(self) -> Iterator[Need]:
        """Yield the needs of the files that the command is redirected to or from."""
        for each in self.command.redirections:
            if not each.touches_file:
                continue
            shown = clip(f"{each.operator} {each.target.text or '$...'}", _SHOWN_CHARS)
            if each.target.text is None or each.target.is_pattern or self.is_moved:
                yield Need(text=shown, why="it is redirected to or from a computed file")
                continue
            for path in (_find_path(folder, each.target) for folder in self.folders):
                is_here = is_inside(path, self.place.roots)
                if ">" in each.operator:
                    yield replace(need_of_edit(path, self.place, is_inside=is_here), text=shown)
                elif is_here:
                    yield Need(text=shown, why="it reads a file inside", is_free=True)
                else:
                    yield Need(text=shown, why="it is redirected from a file outside")

    def find_known(self) -> Need | None:
        """Return the need of a command that an entry of the table allows, None when none does."""
        first = self.command.words[0]
        folder, program = os.path.split(str(first.text))
        given = self.strip_git_flags()
        stays = self.are_inside(word for word in self.command.words if word.is_pattern)
        if not first.is_literal or not stays or given is None:
            return None
        entry = find_entry((program, *(str(word.text) for word in given.command.words[1:])))
        arguments = None if entry is None else read_arguments(entry, given.command.words[len(entry.words) :])
        if entry is None or arguments is None:
            return None
        name = entry.words
        if entry.takes_names:
            n_names = 1 if entry.takes_names == "<name>" else len(arguments.operands)
            names = arguments.texts[:n_names]
            if (not names and entry.takes_names == "<name>") or not all(map(_NAME.match, names)):
                return None
            name, arguments = (*name, *names), replace(arguments, operands=arguments.operands[n_names:])
        scope = given.find_scope(entry, arguments, name)
        if given.outside and (entry.kind == "ask" or entry.words[0] in ("git", "cd")):
            return None
        if scope is None:
            return None
        reader = arguments.texts.index("-exec") + 1 if "-exec" in arguments.texts else len(arguments.texts)
        programs = (program, *arguments.texts[reader : reader + 1])
        return given.need_of(find_entry(scope) or entry, scope, given.find_folder(entry, folder, programs))

    def find_folder(self, entry: KnownCommand, folder: str, programs: Iterable[str]) -> str:
        """Return the folder of a program that is not the known one, nothing for the known one.

        A program of the project that tests, checks or builds it counts as known: which code runs then is the
        project's choice in any case.

        Args:
            entry: the entry for the command.
            folder: the folder that the command names, or nothing.
            programs: the names of the programs that it runs.
        """
        if folder in PROGRAM_FOLDERS[1:]:
            return (
                folder if any(lies_inside(Path(folder, each), self.place.roots) for each in programs) else ""
            )
        if folder or entry.group == "builds":
            return folder
        found = (find_program_inside(each, self.folders, self.place.roots) for each in programs)
        return next((str(each.parent) for each in found if each is not None), "")

    def word_for_word(self) -> Need:
        """Return the need of a command that is covered word for word, in these folders alone."""
        words = tuple(str(word.text) for word in self.command.words)
        text = shlex.join(words)
        label = (
            f"exactly `{text}`" if len(text) <= _LABEL_CHARS and "`" not in text else "exactly this command"
        )
        if self.folders != self.place.roots[:1]:
            label += f" in {_name_folders(self.folders)}"
        kinds = "".join(
            "t" if word.has_tilde else "p" if word.is_pattern else "l" for word in self.command.words
        )
        around = [str(word.text) for word in self.command.assignments]
        around += [f"{each.operator}{each.target.text}" for each in self.command.redirections]
        key = "\0".join(("bash", _name_folders(self.folders), kinds, *words, *around))
        return Need(
            text=text, why="it is not a known command with known flags", key=key, label=label, words=words
        )

    def need_of(self, entry: KnownCommand, scope: tuple[str, ...], folder: str) -> Need:
        """Return the need of a known command.

        Outside the roots, in a repository that is not theirs, and for a program that is named by a path, the
        key names the folder, and nothing is free.
        """
        words = tuple(str(word.text) for word in self.command.words)
        name = " ".join(scope)
        is_elsewhere = not all(is_inside(real_path(each), self.place.roots) for each in self.folders)
        runs_programs = False
        if entry.words[0] == "git" and not is_elsewhere:
            repositories = {find_repository(each) for each in self.folders}
            is_elsewhere = not repositories <= {find_repository(root) for root in self.place.roots}
            runs_programs = any(names_programs(each) or has_submodules(each) for each in repositories)
        need = Need(
            text=name, why=f"`{name}` is a known command", label=f"`{name}`", words=words, scope=scope
        )
        if not folder and not is_elsewhere:
            if entry.kind == "free" and not runs_programs:
                return replace(need, why=f"`{name}` only reads", is_free=True)
            if entry.kind == "edit":
                return replace(need, why=f"`{name}` changes files", key=EDITS, label=EDITS_LABEL)
        names = scope[len(entry.words) :]
        if entry.group and (entry.takes_names or not names) and all(map(ROUTINE.fullmatch, names)):
            label = GROUP_LABELS[entry.group]
            need = replace(need, label=label.format(os.path.join(folder, scope[0])))
            name = f"{scope[0]}: {entry.group}" if folder or "{" in label else entry.group
            if entry.group == "steps" and any(runs_hooks(find_repository(each)) for each in self.folders):
                need, name = (
                    replace(need, label=f"{need.label}, and the hooks that they run"),
                    f"{name} with hooks",
                )
        elif folder:
            need = replace(need, label=f"`{os.path.join(folder, name)}`")
        if folder:
            program = os.path.join(folder, os.path.basename(words[0]))
            name += f" by {sorted({str(real_path(each / program)) for each in self.folders})}"
        if is_elsewhere:
            where = f" in {_name_folders(self.folders)}"
            need, name = replace(need, label=need.label + where), name + where
        return replace(need, key=f"bash:{name}")

    def unwrap(self) -> _Judge:
        """Return the command that a transparent program such as ``timeout`` runs, else this one."""
        words = self.command.words
        if len(words) > 1 and words[1].text in PROXIES.get(str(words[0].text), ()):
            if self.is_inside(words[0]):
                return self
            words = words[1:]
        while (flags := TRANSPARENT.get(str(words[0].text))) is not None:
            if self.is_inside(words[0]):
                return self
            at, n_operands = 1, 1 if words[0].text == "timeout" else 0
            while at < len(words) and str(words[at].text).startswith("-"):
                if words[at].text not in flags:
                    return self
                at += 2 if flags[str(words[at].text)] else 1
            if at + n_operands >= len(words):
                return self
            words = words[at + n_operands :]
        return replace(self, command=replace(self.command, words=words))

    def is_inside(self, program: Word) -> bool:
        """Whether the shell finds *program*, a plain name, inside the roots."""
        return find_program_inside(str(program.text), self.folders, self.place.roots) is not None

    def strip_git_flags(self) -> _Judge | None:
        """Return the command without git's global flags, in the folder of ``-C``; None for any other flag."""
        words, folders = list(self.command.words), self.folders
        if os.path.basename(str(words[0].text)) != "git":
            return self
        while len(words) > 1 and str(words[1].text).startswith("-") and words[1].text != "--version":
            flag = words.pop(1).text
            if flag == "-C" and len(words) > 2 and words[1].is_literal and self.are_inside(words[1:2]):
                target = str(words.pop(1).text)
                folders = tuple(real_path(real_path(each) / target) for each in folders)
            elif flag not in ("--no-pager", "-P", "--no-optional-locks"):
                return None
        return replace(self, command=replace(self.command, words=tuple(words)), folders=folders)

    def find_scope(
        self, entry: KnownCommand, given: Arguments, name: tuple[str, ...]
    ) -> tuple[str, ...] | None:
        """Return the words of the scope of a command with these arguments, None when they leave the entry."""
        texts = given.texts
        is_literal = all(word.is_literal for word in given.operands)
        follows_paths = entry.kind != "ask" and entry.words[0] != "git" and entry.operands not in _PATHLESS
        if self.is_moved and texts and follows_paths:
            return None
        if entry.operands == "@copy":
            *sources, target = given.operands or (Word(""),)
            if not self.are_inside(sources) or self.outside:
                return None
            if any(os.path.isdir(_find_path(folder, target)) for folder in self.folders):
                names = (os.path.basename(str(word.text).rstrip("/")) for word in sources)
                into = (replace(target, text=f"{target.text}/{name}") for name in names)
                given = replace(given, operands=(*given.operands, *into))
        if entry.kind == "ask" and entry.operands == "paths" and any(text[:1] == "@" for text in texts):
            return None  # a file with further arguments, for many programs
        if entry.words[0] == "gh" and any(map(looks_around, given.values("--jq", "-q"))):
            return None
        if entry.group == "posts" and (repository := find_named_repository(given)):
            name = (*name, "--repo", repository)
        is_plain = not any(word.is_pattern for word in given.operands)
        if entry.kind == "edit" and (not is_plain or self.are_protected(given.operands)):
            return None
        match entry.operands:
            case "any" | "text":
                is_fine = True
            case "none":
                is_fine = not texts
            case "paths" | "@copy":
                is_fine = self.are_inside(given.operands)
            case "path":
                is_fine = len(texts) <= 1 and self.are_inside(given.operands)
            case "pattern":
                has_pattern = any(flag in ("-e", "--files") for flag, _ in given.flags)
                is_fine = self.are_inside(given.operands[0 if has_pattern else 1 :])
            case "refs":
                is_fine = is_literal and all(map(_REF.match, texts))
            case "remote":
                is_fine = is_literal and all(map(_BRANCH.match, texts)) and all(map(_REMOTE.match, texts[:1]))
            case check:
                return CHECKS[check](given, name, self.are_inside)
        return name if is_fine else None

    def are_inside(self, operands: Iterable[Word]) -> bool:
        """Whether the paths *operands* lie inside the roots, from each folder, with all links followed."""
        return all(self.stays_inside(folder, word) for word in operands for folder in self.folders)

    def stays_inside(self, folder: Path, word: Word) -> bool:
        text = str(word.text)
        if text in ("-", "/dev/null"):
            return True
        if not word.is_pattern:
            real = _find_path(folder, word)
            if not is_inside(real, self.place.roots):
                self.outside.append(real)
            return True
        start = real_path(folder)
        path = os.path.expanduser(text) if word.has_tilde else text
        fixed = re.split(r"[*?\[]", path, maxsplit=1)[0].rpartition("/")[0]
        # Shells differ in what stands between brackets, and in whether ".*" matches the folder above.
        wider = [part.partition("[")[0] + "*" if "[" in part else part for part in path.split("/")]
        n_fixed = len(fixed.split("/")) if fixed else 0
        climbs = any(part[:1] == "." and fnmatchcase("..", part) for part in wider[n_fixed:])
        if climbs or not is_inside(real_path(start / fixed), self.place.roots):
            return False
        found = list(islice(iglob(os.path.join(escape(str(start)), "/".join(wider))), _MAX_MATCHES))
        is_bounded = len(found) < _MAX_MATCHES
        return is_bounded and all(is_inside(real_path(Path(each)), self.place.roots) for each in found)

    def are_protected(self, operands: Iterable[Word]) -> bool:
        paths = (_find_path(folder, word) for word in operands for folder in self.folders)
        return any(why_protected(path, self.place) or is_hidden(path, self.place) for path in paths)


def _find_path(folder: Path, word: Word) -> Path:
    """Return the resolved path that *word*, no pattern, names in *folder*."""
    text = str(word.text)
    return real_path(real_path(folder) / (os.path.expanduser(text) if word.has_tilde else text))


def _name_folders(folders: Iterable[Path]) -> str:
    return " or ".join(map(str, folders))
