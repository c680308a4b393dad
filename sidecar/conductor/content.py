"""Content blocks of clients (text, resource_link, resource, image) to blocks of the gateway, and back.

A link to a file stays a mention in the prompt: the model reads the file with its tools, and so reads its
current text. Nothing here opens a file.

A prompt that begins with a slash and the name of a command is a command.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.conductor.events import CommandInfo
from sidecar.llmgateway.contract import Block, CommandBlock, ImageBlock, TextBlock, ThinkingBlock, Turn
from sidecar.text.clip import one_line

COMMANDS: Final = (
    CommandInfo("compact", "Condense the older part of the conversation", "[engine] [instructions]"),
    CommandInfo("preview", "Show what /compact would do, without doing it", "[engine]"),
    CommandInfo("uncompact", "Take the newest compaction back", "[force]"),
    CommandInfo("expand", "Let the model see the turns behind a summary", "[compaction] [node.. | node]"),
    CommandInfo("loss", "List the facts that the model does not see whole any more", "[kind of fact]"),
    CommandInfo("pins", "List the passages that the model always sees word for word"),
    CommandInfo("pin", "Let the model always see a fact of /loss, a node, or a text", "fact | node | text"),
    CommandInfo("unpin", "Take a pin away", "pin"),
    CommandInfo("context", "Show how full the window is, and with what"),
    CommandInfo("remember", "Set a rule that holds until it is taken back", "rule"),
    CommandInfo(
        "rules", "List the rules, or keep or dismiss the proposed ones", "keep or dismiss, and a rule"
    ),
    CommandInfo("forget", "Take a rule back", "id or words of the rule"),
    CommandInfo("fork", "Start another session with this conversation"),
    CommandInfo("rewind", "Go back to before the last prompt, or the last n prompts", "[n prompts | node]"),
    CommandInfo("diff", "Show the changes of files by this session"),
    CommandInfo("checkpoint", "List the checkpoints of files, or take files back", "[diff ID | restore ID]"),
    CommandInfo("model", "Show or choose the model", "[name]"),
    CommandInfo("engine", "Show or choose the compaction engine", "[name]"),
    CommandInfo(
        "permissions",
        "Show or choose when to ask for permission, or show, try and change your rules",
        "[mode | rules | test ACTION | allow RULE | deny RULE | remove RULE]",
    ),
    CommandInfo("status", "Show the settings and the size of the session"),
    CommandInfo("help", "List these commands"),
)
"""The commands, in the order in which clients show them."""

_NAMES: Final = frozenset(command.name for command in COMMANDS)


class SlashCommand(Value):
    """A command of a user: its name without the slash, and the *rest* of the line."""

    name: str
    rest: str


SHELL: Final = "!"
"""The name of the command that runs a line in the shell."""

_SHELL_LINE: Final = re.compile(r"!\s?([\w./~$\"'({][^\n]*)\n?")
"""``!=`` and an image of Markdown begin no command, and no text of several lines is one."""


def parse_command(content: Sequence[Mapping[str, Any]], others: Collection[str] = ()) -> SlashCommand | None:
    """Return *content* as a command, None when it is a prompt.

    A command is a single block of text that begins with a slash and a known name, which may be one of
    *others*, or one line that begins with an exclamation mark.

    >>> parse_command([{"type": "text", "text": "/compact keep the names"}])
    SlashCommand(name='compact', rest='keep the names')
    >>> parse_command([{"type": "text", "text": "/usr/bin is missing"}]) is None
    True
    >>> parse_command([{"type": "text", "text": "!git status"}])
    SlashCommand(name='!', rest='git status')
    """
    if len(content) != 1 or content[0].get("type") != "text":
        return None
    text = content[0].get("text")
    if isinstance(text, str) and (line := _SHELL_LINE.fullmatch(text)) is not None:
        return SlashCommand(SHELL, line[1].strip())
    if not isinstance(text, str) or not text.lstrip().startswith("/"):
        return None
    word, *rest = text.split(maxsplit=1)
    name = word.removeprefix("/")
    is_known = name in _NAMES or name in others
    return SlashCommand(name, rest[0].strip() if rest else "") if is_known else None


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
    return "\n\n".join([block.text for block in blocks if isinstance(block, TextBlock)])


def text_of_turn(turn: Turn) -> str:
    """Return everything in *turn* that a model reads, the input and the output of tools included."""
    values = (getattr(block, name, "") for block in turn.blocks for name in ("text", "input", "output"))
    return "\n".join(each if isinstance(each, str) else str(each) for each in values if each)


def prompt_title(blocks: Sequence[Block]) -> str:
    """Return a title for a conversation that begins with *blocks*: its first line, shortened.

    >>> prompt_title([TextBlock("Fix the parser\\nplease")])
    'Fix the parser'
    """
    lines = prompt_text(blocks).strip().splitlines()
    return one_line(lines[0], _TITLE_CHARS) if lines else "Image"


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


def turn_text(turn: Turn) -> str:
    """Return the text of *turn*, without thinking."""
    return "".join(block.text for block in turn.blocks if isinstance(block, TextBlock))
