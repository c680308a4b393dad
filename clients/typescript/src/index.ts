/** A client of the sidecar daemon: spawn one or attach to one, send requests, follow its events. */

export * from "./client.js";
export { Documents, type OpenDocument, type Position, type RangedChange, type TextChange } from "./documents.js";
export * from "./errors.js";
export { EventStream, type Gap, type GapEvent, type SessionEvent, type SidecarEvent } from "./events.js";
export type { ClientOptions, Handler, ServerInfo } from "./handshake.js";
export * from "./permissions.js";
export type * from "./protocol.js";
export * from "./session.js";
