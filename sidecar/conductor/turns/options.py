"""Config options of a session: model, compaction engine, knowledge sources, thinking, permissions, budgets.

A choice takes effect with the next turn; a running turn goes on with the choices that it began with. Only the
knowledge sources, the permission mode and the budgets take effect at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeVar

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import ConfigChoice, ConfigOption
from sidecar.conductor.errors import ModelNotFound
from sidecar.conductor.events import ConfigChanged
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.turns.agent import THINKING_LEVELS
from sidecar.conductor.window.window import SessionWindow
from sidecar.llmgateway.budget import NO_BUDGET, describe_budgets, merge_budgets, parse_budgets
from sidecar.llmgateway.contract import ModelCard
from sidecar.llmgateway.registry import ModelOrigin
from sidecar.permissions.policy import PERMISSION_MODES, PERMISSION_NAMES, Policy

S = TypeVar("S", bound=str)

_DEFAULT_LEVEL: Final = "default"
_DEFAULT_BUDGET: Final = "default"
_BUDGETS: Final = ("0.50usd per prompt", "2usd per prompt", "500k per prompt", "10usd per session")
"""Budgets to choose among; any other one can be written."""

_NO_SOURCE: Final = "none"
_SEPARATOR: Final = "+"
"""Separates the sources in one value, such as ``workspace+sessions``, for an option has a single value."""


class Options:
    """The config options of one session."""

    def __init__(
        self, record: SessionRecord, policy: Policy, window: SessionWindow, sources: Sequence[str]
    ) -> None:
        """*sources* are the names of the knowledge sources on offer."""
        self._record = record
        self._models = record.models
        self._policy = policy
        self._window = window
        self._engines = window.engines
        self._sources = sources

    def find_models(self) -> tuple[tuple[str, ModelOrigin, ModelCard | None, str | None], ...]:
        """Return the models on offer by name: the origin of each, its card, and why it cannot be called."""
        found = self._models
        names = dict.fromkeys((*found.names(), self._record.info.model))
        return tuple((each, found.origin(each), found.card(each), found.why_not(each)) for each in names)

    def all(self) -> tuple[ConfigOption, ...]:
        """Return every option with its current value and its choices."""
        info = self._record.info
        names = dict.fromkeys((*self._models.names(), info.model))
        cards = ((name, self._models.card(name)) for name in names)
        models = tuple(ConfigChoice(name, card.display_name if card else name) for name, card in cards)
        engines = tuple(map(_as_choice, self._engines.names))
        levels = self._levels()
        thinking = info.thinking if info.thinking in levels else _DEFAULT_LEVEL
        modes = tuple(ConfigChoice(mode, PERMISSION_NAMES[mode]) for mode in PERMISSION_MODES)
        return (
            ConfigOption("model", "Model", "model", info.model, models),
            ConfigOption("engine", "Compaction engine", "_engine", info.engine, engines),
            *self._knowledge(),
            ConfigOption("thinking", "Thinking", "thought_level", thinking, tuple(map(_as_choice, levels))),
            ConfigOption("permissions", "Permissions", "mode", self._policy.mode, modes),
            self._budget(),
        )

    async def prepare(self, config_id: str, value: str) -> None:
        """Do the slow part of a choice, such as fetching a model card; :meth:`choose` makes the choice."""
        if config_id == "model":
            await self._models.ready(value)
        elif config_id == "engine":
            await self._window.planner.warm_up(self._engines.find_name(value))

    def choose(self, config_id: str, value: str) -> None:
        """Set one option and emit the new values of all. Raises InvalidInput, ModelNotFound."""
        match config_id:
            case "model":
                if (why := self._models.why_not(value)) is not None:
                    raise ModelNotFound(value, tuple(self._models.names()), why)
                self._record.amend(lambda info: replace(info, model=value))
                self._record.look_up_card()
                self._models.warm_up(value)
            case "engine":
                name = self._engines.find_name(value)
                self._record.amend(lambda info: replace(info, engine=name))
            case "knowledge":
                offered = [choice.value for option in self._knowledge() for choice in option.options]
                chosen = _one_of(value, tuple(offered))
                names = () if chosen == _NO_SOURCE else tuple(chosen.split(_SEPARATOR))
                self._record.amend(lambda info: replace(info, knowledge=names))
            case "thinking":
                level = _one_of(value, self._levels())
                self._record.amend(lambda info: replace(info, thinking=level))
            case "budget":
                self.choose_budgets(value)
            case "permissions":
                self._policy.choose(_one_of(value, PERMISSION_MODES))
            case _:
                known = ", ".join(option.id for option in self.all())
                raise InvalidInput(f"no config option {config_id!r}", hint=f"known options: {known}")
        self._record.events.emit(ConfigChanged(self.all()))
        if config_id in ("model", "engine", "budget"):
            self._record.events.emit(self._window.request.usage())

    def add_budgets(self, value: str) -> None:
        """Set the budgets in *value*, and keep the chosen ones for other periods. Raises InvalidInput."""
        chosen = self._record.info.budget
        if value not in (_DEFAULT_BUDGET, NO_BUDGET):
            with refuse_wrong_budget():
                kept = parse_budgets(chosen or NO_BUDGET)
                value = describe_budgets(merge_budgets(kept, parse_budgets(value)).values())
        self.choose("budget", value)

    def choose_budgets(self, value: str) -> None:
        """Set the budgets in *value* in place of all chosen ones. Raises InvalidInput."""
        chosen = ""
        if value != _DEFAULT_BUDGET:
            with refuse_wrong_budget():
                chosen = describe_budgets(parse_budgets(value))
        spending = self._record.spending
        spending.choose(chosen, spending.settings)
        if not spending.blocks_prompts:
            self._record.work.forget_budget()
            self._record.queue.release()
        self._record.amend(lambda info: replace(info, budget=chosen))

    def _budget(self) -> ConfigOption:
        """Return the option for the budgets; the settings of the user are the default."""
        settings = describe_budgets(self._record.spending.settings)
        current = self._record.info.budget or _DEFAULT_BUDGET
        default = ConfigChoice(_DEFAULT_BUDGET, f"As in the settings: {settings}")
        values = dict.fromkeys((NO_BUDGET, *_BUDGETS, *([] if current == _DEFAULT_BUDGET else [current])))
        return ConfigOption("budget", "Budget", "_budget", current, (default, *map(_as_choice, values)))

    def _knowledge(self) -> tuple[ConfigOption, ...]:
        """Return the option for the sources to search before an answer; none when no source exists."""
        names = tuple(self._sources)
        if not names:
            return ()
        sets = [names[:0], *((name,) for name in names), names] if len(names) > 1 else [names[:0], names]
        chosen = tuple(name for name in names if name in self._record.info.knowledge)
        options = tuple(_as_choice(_join_sources(each)) for each in sets)
        return (ConfigOption("knowledge", "Knowledge", "_knowledge", _join_sources(chosen), options),)

    def _levels(self) -> tuple[str, ...]:
        """Return the thinking levels of the session's model: only the default for one that cannot think."""
        card = self._record.card
        return (_DEFAULT_LEVEL, *(THINKING_LEVELS if card is not None and card.reasoning else ()))


@contextmanager
def refuse_wrong_budget() -> Iterator[None]:
    """Raise InvalidInput for a text in the block that is no budget."""
    try:
        yield
    except ValueError as error:
        raise InvalidInput(str(error)) from None


def _join_sources(names: Sequence[str]) -> str:
    return _SEPARATOR.join(names) or _NO_SOURCE


def _as_choice(value: str) -> ConfigChoice:
    return ConfigChoice(value, value)


def _one_of(value: str, known: tuple[S, ...]) -> S:
    for each in known:
        if each == value:
            return each
    raise InvalidInput(f"{value!r} cannot be chosen", hint=f"choices: {', '.join(known)}")
