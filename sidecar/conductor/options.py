"""The knobs of a session: its model, the engine that condenses, what is searched, thinking, permissions.

A choice counts from the next turn on, and what runs goes on as it began; only what is searched and what may
be done unasked count at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import ConfigChoice, ConfigOption
from sidecar.conductor.core import THINKING_LEVELS, Core
from sidecar.conductor.errors import ModelNotFound
from sidecar.conductor.events import ConfigChanged
from sidecar.conductor.permissions import PERMISSION_MODES

__all__ = ["Options"]

S = TypeVar("S", bound=str)

_UNSAID: Final = "default"
_NOTHING: Final = "none"
_AND: Final = "+"
"""Parts the sources of one choice, such as ``workspace+sessions``: an option has one value."""

_PERMISSION_NAMES: Final = {
    "ask": "Ask before every change",
    "allowEdits": "Edit files in the session's folders without asking",
    "allowAll": "Never ask",
}


class Options:
    """The knobs of one session."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def all(self) -> tuple[ConfigOption, ...]:
        """Return the knobs, how they stand and what they may be set to."""
        core, info = self._core, self._core.info
        names = dict.fromkeys((*core.deps.models.names(), info.model))
        models = tuple(ConfigChoice(name, self._model_name(name)) for name in names)
        engines = tuple(map(_plain, core.deps.engines))
        levels = self._levels()
        thinking = info.thinking if info.thinking in levels else _UNSAID
        modes = tuple(ConfigChoice(mode, _PERMISSION_NAMES[mode]) for mode in PERMISSION_MODES)
        return (
            ConfigOption("model", "Model", "model", info.model, models),
            ConfigOption("engine", "Compaction engine", "_engine", info.engine, engines),
            *self._knowledge(),
            ConfigOption("thinking", "Thinking", "thought_level", thinking, tuple(map(_plain, levels))),
            ConfigOption("permissions", "Permissions", "mode", core.permissions.mode, modes),
        )

    async def prepare(self, config_id: str, value: str) -> None:
        """Learn what takes time to learn of a choice, before it is made."""
        if config_id == "model":
            await self._core.deps.models.ready(value)

    def choose(self, config_id: str, value: str) -> None:
        """Set one knob, and tell how all of them stand. Raises InvalidInput, ModelNotFound."""
        match config_id:
            case "model":
                self._choose_model(value)
            case "engine":
                self._core.info = replace(self._core.info, engine=self._core.engine_name(value))
            case "knowledge":
                self._choose_knowledge(value)
            case "thinking":
                self._core.info = replace(self._core.info, thinking=_one_of(value, self._levels()))
            case "permissions":
                self._core.permissions.mode = _one_of(value, PERMISSION_MODES)
            case _:
                known = ", ".join(option.id for option in self.all())
                raise InvalidInput(f"no config option {config_id!r}", hint=f"there are: {known}")
        self._core.events.emit(ConfigChanged(self.all()))
        if config_id in ("model", "engine"):
            self._core.events.emit(self._core.usage())

    def _choose_model(self, model: str) -> None:
        models = self._core.deps.models
        if (why := models.why_not(model)) is not None:
            raise ModelNotFound(model, tuple(models.names()), why)
        self._core.info = replace(self._core.info, model=model)

    def _knowledge(self) -> tuple[ConfigOption, ...]:
        """Return what may be searched before a prompt is answered; no knob where nothing is on offer."""
        names = self._core.deps.library.names
        if not names:
            return ()
        sets = [names[:0], *((name,) for name in names), names] if len(names) > 1 else [names[:0], names]
        chosen = tuple(name for name in names if name in self._core.info.knowledge)
        options = tuple(_plain(_joined(each)) for each in sets)
        return (ConfigOption("knowledge", "Knowledge", "_knowledge", _joined(chosen), options),)

    def _choose_knowledge(self, value: str) -> None:
        offered = [choice.value for option in self._knowledge() for choice in option.options]
        chosen = _one_of(value, tuple(offered))
        names = () if chosen == _NOTHING else tuple(chosen.split(_AND))
        self._core.info = replace(self._core.info, knowledge=names)

    def _model_name(self, model: str) -> str:
        card = self._core.deps.models.card(model)
        return card.display_name if card is not None else model

    def _levels(self) -> tuple[str, ...]:
        """Return how hard the session's model may be told to think; one that cannot has no choice."""
        card = self._core.card
        return (_UNSAID, *THINKING_LEVELS) if card is not None and card.reasoning else (_UNSAID,)


def _joined(names: Sequence[str]) -> str:
    return _AND.join(names) or _NOTHING


def _plain(value: str) -> ConfigChoice:
    return ConfigChoice(value, value)


def _one_of(value: str, known: tuple[S, ...]) -> S:
    for each in known:
        if each == value:
            return each
    raise InvalidInput(f"{value!r} cannot be chosen", hint=f"there are: {', '.join(known)}")
