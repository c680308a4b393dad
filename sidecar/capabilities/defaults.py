"""The tools every session starts with."""

from __future__ import annotations

from sidecar.capabilities.bash import BASH
from sidecar.capabilities.contract import Tool
from sidecar.capabilities.edit import EDIT
from sidecar.capabilities.find import FIND
from sidecar.capabilities.glob import GLOB
from sidecar.capabilities.grep import GREP
from sidecar.capabilities.ls import LS
from sidecar.capabilities.read import READ
from sidecar.capabilities.todo import TODO
from sidecar.capabilities.write import WRITE

__all__ = ["default_tools"]


def default_tools() -> tuple[Tool, ...]:
    """Return the tools of our own, in the order a model is shown them."""
    return (READ, GREP, FIND, LS, GLOB, EDIT, WRITE, BASH, TODO)
