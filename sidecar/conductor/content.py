"""Content blocks of clients (text, resource_link, resource, image) to blocks of the gateway, and back.

A link to a file stays a mention in the prompt: the model reads the file with its tools, and so reads its
current text. Nothing here opens a file.

A prompt that begins with a slash and a word is a command, which the daemon carries out for every client.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.conductor.events import CommandInfo
from sidecar.llmgateway.contract import (
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    Turn,
    join_texts,
)
from sidecar.text.clip import one_line

GROUPS: Final[Mapping[str, tuple[CommandInfo, ...]]] = {
    "Conversations": (
        CommandInfo("help", "List the commands"),
        CommandInfo("clear", "Begin a new conversation with the same settings"),
        CommandInfo("resume", "Go on with another conversation of this folder", "[session]"),
        CommandInfo("rewind", "Go back to before a prompt", "[n prompts | node]"),
        CommandInfo("fork", "Go on with a copy of this conversation"),
        CommandInfo("import", "Go on with a conversation of another agent", "[file]"),
        CommandInfo("quit", "Leave; the conversation stays stored"),
    ),
    "The model and its window": (
        CommandInfo("model", "Show or choose the model", "[name]"),
        CommandInfo("compact", "Condense the older part", "[engine] [instructions]"),
        CommandInfo("undo", "Take the newest compaction back", "[force]"),
        CommandInfo("preview", "Show what /compact would do", "[engine]"),
        CommandInfo("context", "Show how full the window is, and with what"),
        CommandInfo("cost", "Show what this conversation has cost"),
        CommandInfo("budget", "Show or set the most that it may cost", "[amount [per period] | none]"),
        CommandInfo("files", "List the files that the model has read"),
        CommandInfo("loss", "List the facts that it does not see whole", "[kind of fact]"),
        CommandInfo("expand", "Show it turns behind a summary again", "[compaction] [node.. | node]"),
        CommandInfo("pins", "List the passages that it always sees"),
        CommandInfo("pin", "Let it always see a passage", "fact | node | text"),
        CommandInfo("unpin", "Take a pin away", "pin"),
    ),
    "Rules for the model": (
        CommandInfo("init", "Let it write AGENTS.md for this folder", "[wishes]"),
        CommandInfo("remember", "Set a rule that holds until it is taken back", "rule"),
        CommandInfo("rules", "List the rules, keep or dismiss proposed ones", "[keep | dismiss] [rule]"),
        CommandInfo("forget", "Take a rule back", "id or words of the rule"),
    ),
    "Changes of files": (
        CommandInfo("diff", "Show the changes by this conversation"),
        CommandInfo("checkpoint", "List the checkpoints, or take files back", "[diff ID | restore ID]"),
    ),
    "Settings": (
        CommandInfo(
            "permissions",
            "Show or choose when to ask, or your rules",
            "[mode | rules | test ACTION | allow RULE | deny RULE | remove RULE]",
        ),
        CommandInfo("thinking", "Show or choose how long the model thinks", "[level]"),
        CommandInfo("engine", "Show or choose the compaction engine", "[name]"),
        CommandInfo("status", "Show all settings"),
        CommandInfo("extensions", "List the skills, hooks and tool servers"),
    ),
}
"""The commands, by what they are about; the frequent ones first."""

COMMANDS: Final = tuple(command for group in GROUPS.values() for command in group)
"""The commands, in the order in which clients show them."""

ALIASES: Final = {
    "approvals": "permissions",
    "branch": "fork",
    "config": "status",
    "continue": "resume",
    "effort": "thinking",
    "exit": "quit",
    "hooks": "extensions",
    "mcp": "extensions",
    "memory": "rules",
    "new": "clear",
    "reset": "clear",
    "settings": "status",
    "skills": "extensions",
    "uncompact": "undo",
    "usage": "cost",
}
"""Other names of commands, as Claude Code, codex and earlier versions have them."""

INIT_PROMPT: Final = """\
Write AGENTS.md in this folder: what an agent must know to work here, and cannot see at once. If there is \
one, improve it, and keep what is right. Read first what is there: the README, the files of the build and of \
the tests, those of the formatter and the linter, the rules of other agents (such as CLAUDE.md or \
.cursorrules), and some of the code. Then write, in at most 60 short lines: what the project is; how it is \
laid out; the commands that build, run, check and test it, one test too; its own conventions, where they are \
not the usual ones. Write nothing that you have not seen in the folder, and no advice that holds for every \
project.
"""
"""The prompt that ``/init`` stands for."""

_NAMES: Final = frozenset(command.name for command in COMMANDS)


class SlashCommand(Value):
    """A command of a user: its name without the slash, and the *rest* of the line."""

    name: str
    rest: str

    @property
    def is_answered(self) -> bool:
        """Whether the daemon answers it; the other ones stand for a prompt, or for nothing."""
        return self.name != "init" and (self.name in _NAMES or self.name == SHELL)


SHELL: Final = "!"
"""The name of the command that runs a line in the shell."""

_SHELL_LINE: Final = re.compile(r"!\s?([\w./~$\"'({][^\n]*)\n?")
"""``!=`` and an image of Markdown begin no command, and no text of several lines is one."""

_SLASH_WORD: Final = re.compile(r"/([^\W_][\w:.-]*)")
"""A word with a second slash is a path."""


def parse_command(content: Sequence[Mapping[str, Any]], others: Collection[str] = ()) -> SlashCommand | None:
    """Return *content* as a command, None when it is a prompt.

    A command is a single block of text that begins with a slash and a word, or one line that begins with an
    exclamation mark. An alias is replaced by the name of its command, unless it is one of *others*, the
    user's own commands. The word may name no command: then it is an error, or a file of the root folder.

    >>> parse_command([{"type": "text", "text": "/compact keep the names"}])
    SlashCommand(name='compact', rest='keep the names')
    >>> parse_command([{"type": "text", "text": "/exit"}])
    SlashCommand(name='quit', rest='')
    >>> parse_command([{"type": "text", "text": "/usr/bin is missing"}]) is None
    True
    >>> parse_command([{"type": "text", "text": "!git status"}])
    SlashCommand(name='!', rest='git status')
    """
    if len(content) != 1 or content[0].get("type") != "text":
        return None
    text = content[0].get("text")
    if not isinstance(text, str):
        return None
    if (line := _SHELL_LINE.fullmatch(text)) is not None:
        return SlashCommand(SHELL, line[1].strip())
    word, *rest = text.split(maxsplit=1) or [""]
    if (found := _SLASH_WORD.fullmatch(word)) is None:
        return None
    name = found[1] if found[1] in others else ALIASES.get(found[1], found[1])
    return SlashCommand(name, rest[0].strip() if rest else "")


def describe_unknown(name: str, others: Collection[str]) -> str:
    """Return the answer to a command that does not exist, with the nearest one, of *others* too.

    >>> describe_unknown("compcat", ()).partition(".")[0]
    'There is no command /compcat; the nearest is /compact'
    """
    known = (*_NAMES, *ALIASES, *others)
    begun = [each for each in sorted(known, key=len) if each.startswith(name)]
    near = begun or get_close_matches(name, known, n=1)
    nearest = f"; the nearest is /{near[0]}" if near else ""
    return (
        f"There is no command /{name}{nearest}. /help lists the commands. To send this to the model, begin "
        "with another word."
    )


Content: TypeAlias = tuple[Mapping[str, Any], ...]
"""A prompt as its client wrote it: content blocks."""

ATTACHED: Final = "<attached uri="
"""The beginning of a block with a file that the client attached."""

_TITLE_CHARS = 60
_MAX_BLOCKS = 1_000


def content_to_prompt(content: Sequence[Mapping[str, Any]]) -> tuple[Block, ...]:
    """Return the blocks of a user turn. Raises InvalidInput for an empty or unknown content block.

    >>> content_to_prompt([{"type": "text", "text": "hi"}])
    (TextBlock(text='hi'),)
    """
    if not content:
        raise InvalidInput(
            "the prompt is empty", hint='give at least one block, such as {"type": "text", ...}'
        )
    if len(content) > _MAX_BLOCKS:
        raise InvalidInput(f"the prompt has {len(content)} content blocks, the limit is {_MAX_BLOCKS}")
    blocks, is_blank = list[Block](), True
    for index, item in enumerate(content):
        block = to_block(item, index)
        is_blank = is_blank and isinstance(block, TextBlock) and not block.text.strip()
        blocks.append(block)
    if is_blank:
        raise InvalidInput("the prompt has no text", hint="write something in a text block")
    return tuple(blocks)


def to_block(item: Mapping[str, Any], index: int) -> Block:
    """Return the content block *item*, at *index* of a prompt, as a block. Raises InvalidInput."""
    match item.get("type"):
        case "text":
            return TextBlock(_string(item, "text", index))
        case "resource_link":
            return TextBlock(f"[{item.get('name') or 'file'}]({_string(item, 'uri', index)})")
        case "resource":
            resource = item.get("resource")
            if not isinstance(resource, Mapping):
                raise InvalidInput(f"input[{index}].resource must be an object with uri and text")
            uri = _string(resource, "uri", index)
            if "text" not in resource:
                return TextBlock(f"[attached file, not text]({uri})")
            return TextBlock(f'{ATTACHED}"{uri}">\n{_string(resource, "text", index)}\n</attached>')
        case "image":
            media_type, data = _string(item, "mimeType", index), _string(item, "data", index)
            try:
                binascii.a2b_base64(data, strict_mode=True)
            except ValueError:
                hint = "encode the bytes of the image as base64, padded and without line ends"
                raise InvalidInput(f"input[{index}].data is not valid base64", hint=hint) from None
            return ImageBlock(media_type, data)
        case other:
            known = "text, resource_link, resource, image"
            raise InvalidInput(f"input[{index}]: unknown type {other!r}", hint=f"known types: {known}")


def _string(item: Mapping[str, Any], name: str, index: int) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        found = "nothing" if value is None else type(value).__name__
        raise InvalidInput(f"input[{index}].{name} must be a string, found {found}")
    return value


def prompt_text(blocks: Sequence[Block]) -> str:
    """Return the text of *blocks*, one paragraph for each block."""
    return join_texts(blocks, "\n\n")


def text_of_turn(turn: Turn) -> str:
    """Return everything in *turn* that a model reads, the input and the output of tools included."""
    values = (getattr(block, name, "") for block in turn.blocks for name in ("text", "input", "output"))
    return "\n".join(each if isinstance(each, str) else str(each) for each in values if each)


def prompt_title(blocks: Sequence[Block]) -> str:
    """Return a title for a conversation that begins with *blocks*: the first line typed, shortened.

    Where only files came it is the name of the first.

    >>> prompt_title([TextBlock("[a.py](file:///x/a.py)"), TextBlock("Fix the parser\\nplease")])
    'Fix the parser'
    """
    names = [attached_name(block) for block in blocks]
    typed = [block for block, name in zip(blocks, names, strict=True) if name is None]
    lines = prompt_text(typed).strip().splitlines() or [*filter(None, names)]
    return one_line(lines[0], _TITLE_CHARS) if lines else "Image"


def attached_name(block: Block) -> str | None:
    """Return the name of the file that *block* attaches or links to, None for any other block.

    >>> attached_name(TextBlock("[a.py](file:///x/a.py)")), attached_name(TextBlock("[1](x:y) and (z)"))
    ('a.py', None)
    """
    text = block.text if isinstance(block, TextBlock) else ""
    if text.startswith(ATTACHED):
        return text.removeprefix(ATTACHED).partition('">')[0].rpartition("/")[2]
    name, _, uri = text.partition("](")
    is_link = name.startswith("[") and "\n" not in name and uri.endswith(")") and len(uri.split()) == 1
    return name[1:] if is_link else None


def turn_content(turn: Turn) -> tuple[Mapping[str, Any], ...]:
    """Return *turn* as content blocks; tool calls are left out, for they have events of their own."""
    return tuple(item for block in turn.blocks if (item := to_item(block)) is not None)


def to_item(block: Block) -> Mapping[str, Any] | None:
    """Return *block* as a content block, None for one that clients do not show."""
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case CommandBlock(command=command, args=args):
            return {"type": "text", "text": " ".join((f"/{command}", *(args or ())))}
        case ThinkingBlock(text=text) if text:
            return {"type": "thinking", "text": text}
        case ImageBlock(media_type=media_type, data_base64=data):
            return {"type": "image", "mimeType": media_type, "data": data}
    return None
