"""One scenario, played through each face and in the process itself, leaves the same logs of events."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from sidecar.boot import build
from sidecar.protocol.codec import event_to_wire

if TYPE_CHECKING:
    from tests.scenario.conftest import Player

SCENARIO: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("scenario.json").read_text())
MODEL: Final = "scripted-1"
TIMES: Final = {"at", "updatedAt", "durationMs", "createdAt", "seq"}
Players: TypeAlias = "Mapping[str, type[Player]]"


def lay_out(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    for name, content in SCENARIO["files"].items():
        (folder / name).write_text(content)


async def played(make: type[Player], home: Path, folder: Path) -> list[dict[str, Any]]:
    """Return the logs that the scenario leaves behind, without the fields that differ between runs."""
    lay_out(folder)
    daemon = build(home)
    daemon.models.add_scripted({MODEL: {"scripted": SCENARIO["script"], "contextWindow": 50_000}})
    daemon.workspace.leave_to_client([folder])
    player = make(daemon, folder)
    await player.open()
    logs = [player.log]
    for step in SCENARIO["steps"]:
        await play(player, step)
        if player.log is not logs[-1]:
            logs.append(player.log)
    events = [event_to_wire(event) for log in logs for event in log.after(0, 10_000)]
    # Files are compared in their own time: such an event may come before or after its neighbours.
    events.sort(key=lambda event: event["kind"] == "fileStale")
    await daemon.service.aclose()
    return merged(nameless(events))


async def play(player: Player, step: Mapping[str, Any]) -> None:
    match step:
        case {"prompt": words, "steered": steered, "queued": queued}:
            player.asked = interfere(player, steered, queued)
            await player.prompt(words)
            await player.settle_behind()
        case {"prompt": words}:
            await player.prompt(words)
        case {"refused": words}:
            player.answer = "reject_once"
            await player.prompt(words)
        case {"cancelled": words}:
            await player.cancelled(words)
        case {"unsaved": typed, "in": name}:
            await player.type(player.folder / name, typed)
        case {"choose": option, "value": value}:
            await player.call("session/setConfigOption", configId=option, value=value)
        case {"compact": instructions}:
            seq = player.log.seq
            await player.call("compact/start", instructions=instructions)
            await player.until("compaction", seq)
        case {"undo": True}:
            await player.call("compact/undo")
        case {"rewindTo": index}:
            node = player.session.record.history.current.node_ids[index]
            seq = player.log.seq
            await player.call("session/rewind", toNode=node, expectHead=None)
            await player.until("fileStale", seq)  # the model sees main.py again as it was before the edit
        case {"fork": True}:
            await player.call("session/fork")
            await player.until("fileStale", 0)
        case _:
            raise AssertionError(f"no such step: {step}")


def interfere(player: Player, steered: str, queued: str) -> Callable[[], Awaitable[None]]:
    """Return a function that steers the asking turn, and sends another prompt behind it."""

    thinks = player.asked

    async def act() -> None:
        player.asked = thinks
        seq = player.log.seq
        await player.steer(steered)
        await player.queue(queued)
        await player.until("queue", seq)

    return act


def nameless(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *events* with ids numbered in the order they appear, and without times."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"<{len(numbers)}>")

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\b[0-9a-f]{32}\b", number, value)
        if isinstance(value, dict):
            return {key: None if key in TIMES else clean(item) for key, item in value.items()}
        return [clean(item) for item in value] if isinstance(value, list | tuple) else value

    return [clean(event) for event in events]


def merged(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *events* with neighbouring deltas in one: how they are cut depends on the clock."""
    out: list[dict[str, Any]] = []
    for event in events:
        last: dict[str, Any] = out[-1] if out else {"kind": None}
        if "Delta" in event["kind"].title() and last["kind"] == event["kind"]:
            last["data"]["delta"] += event["data"]["delta"]
        else:
            out.append(event)
    return out


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the scenario: its name is in the logs."""
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def plain(players: Players, project: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The log that the hub leaves."""
    return asyncio.run(played(players["hub"], tmp_path_factory.mktemp("home"), project))


@pytest.mark.parametrize("face", ["lsp", "acp1", "acp2"])
async def test_a_face_leaves_the_log_that_the_hub_leaves(
    plain: list[dict[str, Any]], players: Players, project: Path, tmp_path: Path, face: str
) -> None:
    assert await played(players[face], tmp_path, project) == plain


def test_the_scenario_has_something_of_everything(plain: list[dict[str, Any]]) -> None:
    kinds = {event["kind"] for event in plain}
    assert kinds >= {
        "commandsChanged",
        "compaction",
        "configChanged",
        "faulted",
        "headMoved",
        "infoChanged",
        "message",
        "phase",
        "plan",
        "queue",
        "rehydrated",
        "settled",
        "textDelta",
        "thinkingDelta",
        "toolFinished",
        "toolStarted",
        "usage",
        "userMessage",
    }
    reasons = [event["data"].get("stopReason") for event in plain if event["kind"] in ("settled", "faulted")]
    assert reasons == ["end_turn"] * 6 + ["cancelled"] + ["end_turn"] * 2 + [None, "max_tokens"]
    statuses = [event["data"]["status"] for event in plain if event["kind"] == "compaction"]
    assert statuses == ["in_progress", "completed", "undone"]
    (restored,) = [event["data"]["files"] for event in plain if event["kind"] == "rehydrated"]
    sources = {file["uri"].rpartition("/")[2]: file["source"] for file in restored}
    assert sources == {"main.py": "disk", "draft.py": "buffer"}
