"""Compare what the daemon does with the record of it: ``make same``; ``make same-record`` stores it again.

There is a record for each scene of the day on each face, and one for each engine in each planted
conversation. Names of records as arguments are played alone. The records stand beside this module. Store them
again only in a commit whose message names the change of behaviour that a user or a client would notice.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from traceback import print_exception
from typing import Any, Final

from tests.same.canonical import lines_of
from tests.same.client import Scenery
from tests.same.engine_texts import TEXTS, write_texts
from tests.same.player import open_stage
from tests.same.scenes import GROUPED, SCENES, WHOLE, faces_of

__all__ = ["NAMES", "differences", "play", "record_of"]

FOLDER: Final = Path(__file__).with_name("records")
NAMES: Final = (*(f"{face}-{name}" for name in SCENES for face in faces_of(name)), *TEXTS)
"""The names of all records."""

_MOST_DIFFERENCES: Final = 12
_SCENE_S: Final = 120.0
_AT_ONCE: Final = 3
_SHOWN_CHARS: Final = 300


async def play(name: str) -> list[str]:
    """Return the lines of the record *name* as the daemon of today makes them."""
    if name in TEXTS:
        return await write_texts(name)
    face, _, scene = name.partition("-")
    async with open_stage(name) as stage, asyncio.timeout(_SCENE_S):
        await SCENES[scene](Scenery(stage, face))
    return lines_of(stage, is_whole=scene in WHOLE, is_grouped=scene in GROUPED)


def record_of(name: str) -> Path:
    """Return the file of a record."""
    return FOLDER / f"{name}.txt"


def differences(stored: Sequence[str], played: Sequence[str]) -> Iterator[str]:
    """Yield in words where *played* differs from *stored*."""
    if stored == played:  # to search for what is alike takes a while
        return
    matcher = difflib.SequenceMatcher(None, stored, played, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        old, new = stored[start:end], played[new_start:new_end]
        for number, (was, is_now) in enumerate(zip(old, new, strict=False), start + 1):
            yield f"line {number}: {_describe(was, is_now)}"
        for number, line in enumerate(old[len(new) :], start + len(new) + 1):
            yield f"line {number} is missing: {line[:_SHOWN_CHARS]}"
        for line in new[len(old) :]:
            yield f"after line {end} there is also: {line[:_SHOWN_CHARS]}"


def _describe(was: str, is_now: str) -> str:
    pair = f"\n    was {was[:_SHOWN_CHARS]}\n    is  {is_now[:_SHOWN_CHARS]}"
    try:
        (kind, old), (new_kind, new) = _parse(was), _parse(is_now)
    except ValueError:
        return pair
    if kind != new_kind:
        return pair
    where, first, second = next(_members(old, new), ("the order of members", was, is_now))
    first, second = (_around(first, second), _around(second, first))
    return f"{kind}\n    {where}\n    was {first}\n    is  {second}"


def _parse(line: str) -> tuple[str, dict[str, Any]]:
    """Return the kind of message in words, and the message."""
    head, _, text = line.partition("{")
    message = json.loads("{" + text)
    if line.startswith("-->") or not isinstance(message, dict):
        raise ValueError(line)
    kind = message.get("kind") or message.get("update", {}).get("sessionUpdate") or message.get("method")
    return f"{head}{kind or 'answer to ' + str(message.get('id'))}", message


def _members(was: Any, is_now: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the innermost members that differ."""
    if isinstance(was, dict) and isinstance(is_now, dict):
        for name in [*was, *(name for name in is_now if name not in was)]:
            yield from _members(was.get(name, "(absent)"), is_now.get(name, "(absent)"), f"{where}.{name}")
    elif isinstance(was, list) and isinstance(is_now, list) and len(was) == len(is_now):
        for index, (one, other) in enumerate(zip(was, is_now, strict=True)):
            yield from _members(one, other, f"{where}[{index}]")
    elif was != is_now:
        yield where.removeprefix("."), was, is_now


def _around(value: Any, other: Any) -> str:
    """Return the text of *value* from a little before the first character that differs from *other*."""
    text, beside = (each if isinstance(each, str) else json.dumps(each) for each in (value, other))
    pairs = enumerate(zip(text, beside, strict=False))
    at = next((index for index, (one, two) in pairs if one != two), min(len(text), len(beside)))
    start = max(0, at - 60)
    return repr(("..." if start else "") + text[start : start + _SHOWN_CHARS])


async def _compare(names: Sequence[str], *, is_recorded: bool) -> int:
    """Compare, or store again where *is_recorded*. Returns how many scenes differ or fail."""
    gate = asyncio.Semaphore(_AT_ONCE)
    n_differing = 0

    async def one(name: str) -> None:
        nonlocal n_differing
        path = record_of(name)
        stored = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        try:
            async with gate:
                played = await play(name)
        except Exception as error:
            n_differing += 1
            print(f"{name}: the scene cannot be played to its end")
            print_exception(error)
            return
        if stored == played:
            return
        found = list(differences(stored, played))
        print(f"{name}: {len(found)} differences{', stored' if is_recorded else ''}")
        if is_recorded:
            FOLDER.mkdir(exist_ok=True)
            path.write_text("\n".join(played) + "\n", encoding="utf-8")
            return
        n_differing += 1
        for line in found[:_MOST_DIFFERENCES]:
            print(f"  {line}")
        if len(found) > _MOST_DIFFERENCES:
            print(f"  and {len(found) - _MOST_DIFFERENCES} more")

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))
    return n_differing


def main() -> int:
    """Compare the records that the arguments name, all by default; with ``--record`` store them again."""
    arguments = [each for each in sys.argv[1:] if each != "--record"]
    is_recorded = "--record" in sys.argv
    n_differing = asyncio.run(_compare(arguments or NAMES, is_recorded=is_recorded))
    if n_differing:
        print(f"{n_differing} records differ. If that is meant, run make same-record and name the change.")
        return 1
    print("stored" if is_recorded else "the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
