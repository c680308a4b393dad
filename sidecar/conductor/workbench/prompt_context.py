"""The entries in front of a prompt: the content of its mentions, and a note about the editor.

Most prompts have none of them, so their readers are made for the first prompt that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sidecar.capabilities.contract import ToolContext
from sidecar.conductor.content import ATTACHED, Content
from sidecar.conductor.events import Notice
from sidecar.conductor.ports import SessionTools
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.workbench.session_editor import SessionEditor, real_path_of
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, UserTurn

if TYPE_CHECKING:
    from sidecar.conductor.workbench.editor_note import EditorNotes
    from sidecar.conductor.workbench.mentions import MentionReader


class PromptContext:
    """The context of one session's prompts.

    Attributes:
        editors: the reported editors by client.
        offers_tool: whether the tool for diagnostics is on offer.
    """

    def __init__(
        self,
        record: SessionRecord,
        editor: SessionEditor,
        tools: SessionTools,
        make_context: Callable[[str], ToolContext],
    ) -> None:
        """Make the context; *make_context* returns the surroundings of a tool's call."""
        self._record = record
        self._editor = editor
        self.editors = editor.editors.reported
        self._tools = tools
        self._make_context = make_context
        self.offers_tool = False
        self._reader: MentionReader | None = None
        self._notes: EditorNotes | None = None

    async def read_mentions(self, prompt: UserTurn, content: Content) -> tuple[Entry, ...]:
        """Return the entries of the mentions in a prompt, with a notice about mentions without an entry.

        *content* is the prompt of the client: a file that it attached is not read again.
        """
        found = [block.text for block in prompt.blocks if isinstance(block, TextBlock)]
        texts = [text for text in found if "@" in text and not text.startswith(ATTACHED)]
        if not texts:
            return ()
        if self._reader is None:
            from sidecar.conductor.workbench.mentions import MentionReader

            self._reader = MentionReader(self._editor, self._make_context)
        parts = (part for item in content for part in (item, item.get("resource")))
        uris = [str(part["uri"]) for part in parts if isinstance(part, Mapping) and "uri" in part]
        attached = {path for uri in uris if (path := real_path_of(uri))}
        brought = await self._reader.read(texts, attached, self._record.window)
        if brought.problems:
            self._record.events.emit(
                Notice(
                    "warning", "A mention brought nothing, and stays as typed", "\n".join(brought.problems)
                )
            )
        return brought.entries()

    async def describe_editor(self) -> Sequence[Entry]:
        """Return the note about the changes in the editor, and offer its diagnostics as a tool."""
        provides = self._editor.provider is not None
        if provides != self.offers_tool:
            from sidecar.capabilities.diagnostics import DIAGNOSTICS

            self._tools.offer("editor", (DIAGNOSTICS,) if provides else ())
            self.offers_tool = provides
        if not self.editors:
            return ()
        if self._notes is None:
            from sidecar.conductor.workbench.editor_note import EditorNotes

            self._notes = EditorNotes(self._editor, self._make_context("").workspace)
        note = await self._notes.note(self._record.history.current)
        return () if note is None else (note,)
