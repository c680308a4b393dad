/** Answers to the daemon's permission questions. Nothing is allowed unless a handler says so. */

import type { Handler } from "./handshake.js";
import type { PermissionAnswer, PermissionOption, PermissionRequest } from "./protocol.js";

/** Answers one question. Throwing counts as a rejection, and so does answering after `expiresAt`. */
export type PermissionHandler = Handler<"sidecar/permission/request">;

/** Allow this once. As a handler it allows everything. */
export function allow(request: PermissionRequest): PermissionAnswer {
  return choose(request, "allow_once");
}

/** Refuse this once. As a handler it refuses everything. */
export function reject(request: PermissionRequest): PermissionAnswer {
  return choose(request, "reject_once");
}

function choose(request: PermissionRequest, kind: PermissionOption["kind"]): PermissionAnswer {
  const option = request.options.find((option) => option.kind === kind);
  return option === undefined
    ? { outcome: "cancelled" }
    : { outcome: "selected", optionId: option.optionId };
}
