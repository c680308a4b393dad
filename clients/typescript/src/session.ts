/**
 * One session, as a program sees it: ask, follow, wait, compact.
 *
 * A handle: it holds an id and how far its owner has read, nothing of the conversation.
 */

import type { MethodName, Params, Result, SidecarClient } from "./client.js";
import { EventsLost, SidecarClientError } from "./errors.js";
import { EventStream, UNREAD, type SessionEvent } from "./events.js";
import type { Methods } from "./protocol.js";

/** Text, or content blocks as the protocol has them. */
export type Prompt = string | Params<"sidecar/turn/start">["input"];

/** The methods that are about one session. */
export type SessionMethod = {
  [M in MethodName]: Methods[M]["params"] extends { sid: string } ? M : never;
}[MethodName];

type Rest<M extends SessionMethod, K extends string = never> = Omit<Params<M>, "sid" | K>;
type Kind = SessionEvent["kind"];
type EventOfKind<K extends Kind> = Extract<SessionEvent, { kind: K }>;

export class Session {
  /** `seq` is how far the handle's owner has read the session's log. */
  constructor(
    readonly client: SidecarClient,
    readonly sid: string,
    public seq: number,
  ) {}

  /** Ask anything about this session: any method that takes a `sid`, which is filled in. */
  request<M extends SessionMethod>(method: M, params: Rest<M>, signal?: AbortSignal): Promise<Result<M>> {
    return this.client.request(method, { ...params, sid: this.sid } as Params<M>, signal);
  }

  /** Send a prompt and return at once; `waitFor()` and `events()` tell the rest. */
  async prompt(
    prompt: Prompt,
    options: Rest<"sidecar/turn/start", "input"> = {},
  ): Promise<Result<"sidecar/turn/start">> {
    const started = await this.request("sidecar/turn/start", { ...options, input: blocks(prompt) });
    this.#read(started.seq);
    return started;
  }

  /** Send a prompt and wait for the end of its turn; rejects with SidecarRequestError when the turn fails. */
  async run(
    prompt: Prompt,
    signal?: AbortSignal,
    options: Rest<"sidecar/turn/run", "input"> = {},
  ): Promise<Result<"sidecar/turn/run">> {
    const ran = await this.request("sidecar/turn/run", { ...options, input: blocks(prompt) }, signal);
    this.#read(ran.seq);
    return ran;
  }

  /**
   * Send a prompt and yield the events of its turn, and gaps; `settled` or `faulted` is the last. Leaving early
   * does not stop the turn, `interrupt()` does.
   */
  async *stream(
    prompt: Prompt,
    options: Rest<"sidecar/turn/start", "input"> = {},
  ): AsyncGenerator<SessionEvent, void> {
    const events = this.client.events(this.sid);
    const { turnId } = await this.prompt(prompt, options);
    for await (const event of events) {
      throwIfUnread(event);
      if (event.turnId !== turnId && event.kind !== "gap") continue;
      this.#read(event.seq);
      yield event;
      if (event.kind === "settled" || event.kind === "faulted") return;
    }
    throw this.#closed("end of the turn");
  }

  /** Stop `turnId`, else the running turn; with none running nothing happens. */
  interrupt(turnId?: string): Promise<Result<"sidecar/turn/interrupt">> {
    return this.request("sidecar/turn/interrupt", turnId === undefined ? {} : { turnId });
  }

  /** Compact and wait for the outcome; its `status` says how it went. */
  async compact(options: Rest<"sidecar/compact/start"> = {}): Promise<EventOfKind<"compaction">["data"]> {
    const events = this.client.events(this.sid);
    const { compactionId } = await this.request("sidecar/compact/start", options);
    const outcome = await this.#find(
      events,
      "compaction",
      ({ data }) => data.compactionId === compactionId && data.status !== "in_progress",
    );
    return outcome.data;
  }

  /** The session's events after `afterSeq`, by default from where this handle has read. */
  events(afterSeq = this.seq): EventStream {
    return this.client.events(this.sid, afterSeq);
  }

  /**
   * Return the next event of `kind` that `where` accepts; the handle has then read up to it. With
   * `AbortSignal.timeout(ms)` as `signal` it gives up in time. Rejects with EventsLost when the event may have
   * come and be lost.
   */
  async waitFor<K extends Kind>(
    kind: K,
    where: (event: EventOfKind<K>) => boolean = () => true,
    signal?: AbortSignal,
  ): Promise<EventOfKind<K>> {
    const event = await this.#find(this.events(), kind, where, signal);
    this.#read(event.seq);
    return event;
  }

  /** Close the session; it stays stored, and its event streams come to their end. */
  async close(): Promise<void> {
    await this.request("sidecar/session/close", {});
    this.client.forget(this.sid);
  }

  async #find<K extends Kind>(
    events: EventStream,
    kind: K,
    where: (event: EventOfKind<K>) => boolean,
    signal?: AbortSignal,
  ): Promise<EventOfKind<K>> {
    signal?.throwIfAborted();
    const stop = () => void events.return();
    signal?.addEventListener("abort", stop);
    try {
      for await (const event of events) {
        if (kind !== "gap") throwIfUnread(event);
        if (isOf(kind, event) && where(event)) return event;
      }
    } finally {
      signal?.removeEventListener("abort", stop);
    }
    signal?.throwIfAborted();
    throw this.#closed(`${kind} event`);
  }

  #read(seq: number): void {
    this.seq = Math.max(this.seq, seq);
  }

  #closed(awaited: string): SidecarClientError {
    return new SidecarClientError(`session "${this.sid}", or its client, was closed and no ${awaited} had come`);
  }
}

function blocks(prompt: Prompt): Params<"sidecar/turn/start">["input"] {
  return typeof prompt === "string" ? [{ type: "text", text: prompt }] : prompt;
}

function isOf<K extends Kind>(kind: K, event: SessionEvent): event is EventOfKind<K> {
  return event.kind === kind;
}

function throwIfUnread(event: SessionEvent): void {
  if (event.kind === "gap" && event.data.reason === UNREAD) {
    throw new EventsLost(event.sid, event.data.from, event.data.to);
  }
}
