"""The tool kernel: what the model may do on this machine, one file a tool."""

from sidecar.capabilities.contract import Tool
from sidecar.capabilities.defaults import default_tools
from sidecar.capabilities.toolbox import SessionToolBox

__all__ = ["SessionToolBox", "Tool", "default_tools"]
