/**
 * The errors between a program and the daemon.
 *
 *     SidecarClientError
 *      +- SidecarRequestError   the daemon refused a request; the connection is fine
 *      +- EventsLost            events were dropped before they were read; the connection is fine
 *      +- ConnectionLost        the daemon is gone, or the connection is; nothing more will come
 */

/** Something went wrong between this client and the daemon. */
export class SidecarClientError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** The daemon refused a request, or failed at it. */
export class SidecarRequestError extends SidecarClientError {
  /** What went wrong, a stable camelCase word such as `sessionNotFound`. */
  readonly kind: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** What to do next. */
  readonly hint: string | undefined;

  /** `code` is JSON-RPC's, `data` all the daemon said besides. */
  constructor(
    readonly code: number,
    message: string,
    readonly data: Readonly<Record<string, unknown>>,
  ) {
    const kind = String(data["kind"] ?? "internal");
    const hint = typeof data["hint"] === "string" ? data["hint"] : undefined;
    super(`${message} [${kind}, ${code}]${hint === undefined ? "" : `; ${hint}`}`);
    this.kind = kind;
    this.hint = hint;
    this.retryable = data["retryable"] === true;
  }
}

/** Events `from` to `to` of a session were let go unread, so that waiting on could wait for ever. */
export class EventsLost extends SidecarClientError {
  constructor(
    readonly sid: string,
    readonly from: number,
    readonly to: number,
  ) {
    super(
      `events ${from} to ${to} of session "${sid}" were let go unread; ` +
        "read faster, or follow with events(), which goes on after a gap",
    );
  }
}

/** The daemon is gone, or the connection to it is. */
export class ConnectionLost extends SidecarClientError {
  /** `exitCode` is null while unknown, after a signal, and for a daemon that is not ours. */
  constructor(
    readonly reason: string,
    readonly exitCode: number | null = null,
    readonly stderrTail = "",
  ) {
    super(stderrTail === "" ? reason : `${reason}; its last words:\n${stderrTail}`);
  }
}
