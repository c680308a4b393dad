"""What the protocol's page says in words: how it begins, what an event is on the other protocol, what is not.

Text and tables only; what a test can derive from the method table is not here.
"""

from __future__ import annotations

from typing import Final

from sidecar.protocol.handshake import PROTOCOL

__all__ = ["ACP_UPDATES", "INTRODUCTION", "LEFT_OUT"]

_HEAD: Final = f"""\
# The sidecar protocol, number {PROTOCOL}

This page is written by `sidecar schema --format markdown`; a test compares it with the code.

JSON-RPC 2.0. On the LSP face the methods stand beside those of the Language Server Protocol; on the ACP
face they have a leading underscore (`_sidecar/turn/start`), and where the Agent Client Protocol has a
method of its own that one is used. Members nobody knows are ignored, and every object may carry `_meta`.
Words to choose from may grow: take one you do not know for one you need not act on. Members with a `?` may
be absent; `= x` is what stands for an absent one. Times are epoch milliseconds, `tokens` are estimates
unless a provider counted them, hashes are `sha256:` and 64 hex digits. What a client needs to know of a
change, an event tells it.

**Order.** A request takes effect in the order it came among those of its session (`session`). While an
`exclusive` one is at work, the later ones of its session wait until it is answered. Those of the `daemon`
wait for nothing. A result is sent before any event that it introduces, and `settled` or `faulted` is the
last event of its turn.

**Content blocks**, in `input` and in events, are `{{"type": "text", "text"}}`, `{{"type": "resource_link",
"uri", "name"?}}`, `{{"type": "resource", "resource": {{"uri", "text"}}}}`, `{{"type": "image", "mimeType",
"data"}}`; answers also have `{{"type": "thinking", "text"}}`.

**Slash commands.** A prompt that is one text block and begins with `/compact [engine] [instructions]`,
`/preview`, `/uncompact`, `/context`, `/fork`, `/rewind [n prompts | node]`, `/model [name]`, `/engine
[name]`, `/status` or `/help` is carried out instead of sent to the model: a turn that settles, with its
answer as a `message`. It is no part of the conversation, and is not stored. Any other word behind a slash
is an ordinary prompt."""

_HANDSHAKE: Final = """\
## Handshake

On the LSP face a client declares itself in `capabilities.experimental.sidecar`, on the ACP face in
`clientCapabilities._meta.sidecar` (`capabilities._meta.sidecar` of the draft). What has another shape counts
as not declared, and a client that declares nothing gets none of this protocol unasked.

```ts
{
  protocol?: number[]       // the numbers it speaks
  events?: {
    coalesceMs?: number     // how long a delta may wait for more of its message, at most 1000
    kinds?: string[]        // the kinds of events it wants, all for none
    optOut?: string[]       // kinds and notifications it does not want
  }
  permission?: {}           // it answers sidecar/permission/request
  edits?: {}                // it takes sidecar/edit/apply
}
```

What the Agent Client Protocol has no params for, `_meta.sidecar` of `session/new`, `session/fork` and
`session/prompt` has, as our own methods do: `{"model": ...}` for one, or `{"whenBusy": "steer"}`.

For the daemon are `initializationOptions.sidecar`, on the ACP face `_meta.sidecar` of `initialize`:

```ts
{
  models?: Record<string, { scripted: object[][], contextWindow?: number }>  // models that play a script
  lifetime?: "client" | "shared"   // refused unless the daemon was started so
  idleExitSeconds?: number         // how long a shared daemon waits for its next client
}
```

The daemon answers in `capabilities.experimental.sidecar`, or in `agentCapabilities._meta.sidecar`
(`capabilities._meta.sidecar` of the draft).

```ts
{
  protocol: number
  server: { name: string, version: string, build: string }
  engines: string[]
  methods: string[]
  limits: { maxMessageBytes: number, maxInFlight: number, eventBuffer: number }
  faces: string[]                  // lsp, acp1, and acp2 where the draft is switched on
  schemaHash?: string
  socket?: string                  // where further clients may attach
}
```

**Commands.** `workspace/executeCommand` has the methods for editors that know no others. A command takes one
object, the method's params: `sidecar.prompt` (`turn/run`), `.steer`, `.interrupt`, `.compact`,
`.compactPreview`, `.uncompact` (`compact/undo`), `.context` (`context/usage`), `.drop`, `.sessions`
(`session/list`), `.attach`, `.new`, `.fork`, `.status`.

**Plain language clients**, which declare nothing of ours, see turns and compactions as work-done progress
with Cancel, questions as `window/showMessageRequest`, edits of open buffers as `workspace/applyEdit`, notices
as messages, stale files as hints, what the model has read as code lenses, and conversations as documents
`sidecar-session:/SID/transcript.md`, `.../compaction/ID/before.md` and `.../compaction/ID/after.md`; each
where they have the capability for it."""

INTRODUCTION: Final = (_HEAD, _HANDSHAKE)

ACP_UPDATES: Final = (
    ("`phase`", "", "`state_update`, `running`"),
    ("`userMessage`", "`user_message_chunk`, of the past and of other clients", "`user_message`"),
    (
        "`textDelta`, `thinkingDelta`",
        "`agent_message_chunk`, `agent_thought_chunk`",
        "`agent_message_chunk`, `agent_thought_chunk`",
    ),
    ("`message`", "the rest of it, where deltas are missing", "`agent_message`, `agent_thought`"),
    ("`toolStarted`", "`tool_call`", "`tool_call_update`"),
    ("`toolProgress`", "`tool_call_update` with all output so far", "`tool_call_content_chunk`"),
    ("`toolFinished`", "`tool_call_update`, with diffs or a terminal", "`tool_call_update`, with diffs"),
    ("`plan`", "`plan`", "`plan_update`"),
    ("`usage`", "`usage_update`", "`usage_update`"),
    (
        "`compaction`",
        "`compaction_update` with `session.compaction`, else a `tool_call` of kind `think`",
        "`compaction_update`",
    ),
    ("`compactionSummaryDelta`", "`compaction_summary_chunk`, likewise", "`compaction_summary_chunk`"),
    ("`rehydrated`", "a completed `tool_call` of kind `read`", "likewise"),
    (
        "`fileStale`, `retry`, `notice`",
        "`notice` with `session.notices`, else `_meta` of a `session_info_update`",
        "`notice`",
    ),
    ("`fileFresh`", "", ""),
    ("`queue`, `headMoved`", "`_meta` of a `session_info_update`", "likewise"),
    ("`configChanged`", "`config_option_update`, `current_mode_update`", "`config_option_update`"),
    ("`commandsChanged`", "`available_commands_update`", "`available_commands_update`"),
    ("`infoChanged`", "`session_info_update`", "`session_info_update`"),
    ("`settled`", "the answer to `session/prompt`", "`state_update`, `idle`"),
    (
        "`faulted`",
        "an error to `session/prompt`; `max_turn_requests` for `turnBudget`",
        "`state_update`, `idle`, with the error",
    ),
)
"""What an event becomes for a client that knows the Agent Client Protocol alone."""

LEFT_OUT: Final = (
    ("`outputSchema` of a turn", "no provider here promises to keep to one, and a promise half kept is none"),
    (
        "`sidecar/elicit`",
        "nothing in the daemon asks for forms; questions of permission have their own request",
    ),
    ("`face` of `sidecar/schema`", "the ACP face differs by one underscore"),
    ("`session` of `sidecar/log/tail`", "a line of the log belongs to the daemon and names no session"),
    (
        "`prompt` as a part in `sidecar/compact/read`",
        "it would store all that was folded a second time; the plan of a preview has it",
    ),
    (
        "`store`, `policy` and `trust` among the options of a client",
        "the first is the daemon's own (`INDUSAGI_HOME`), the others are said of each session",
    ),
    (
        "`compaction` and `terminal` among what a client declares",
        "compactions are events, to be wanted or not; a terminal is lent on the face that has methods for it",
    ),
    (
        "`window/showDocument`",
        "the daemon opens no files unasked; a tool call names its locations",
    ),
    ("a batch of messages", "the Language Server Protocol has none, and order among them would mean nothing"),
)
"""What was thought of and is not there, with the reason."""
