/**
 * The events of a session, kept for a while, so that nothing is missed between asking and listening.
 *
 * Readers pull; nothing here waits for a reader. When more than the limit is kept the oldest events go, and a
 * reader that had not got to them is told so by an event of kind `gap`.
 */

import type { EventData } from "./protocol.js";

/** An event as the daemon sends it. `seq` is 0 for the past that a load sends again; `at` is in epoch ms. */
export type SidecarEvent = { [K in keyof EventData]: EventOf<K> }[keyof EventData];

interface EventOf<K extends keyof EventData> {
  readonly sid: string;
  readonly seq: number;
  readonly at: number;
  readonly kind: K;
  readonly data: EventData[K];
  readonly turnId?: string;
}

/** Which events are lost, and why: `unread` when this client let them go, else as the daemon says. */
export interface Gap {
  readonly from: number;
  readonly to: number;
  readonly reason: string;
}

/** Stands where events are lost; `seq` is the last of them. */
export interface GapEvent {
  readonly sid: string;
  readonly seq: number;
  readonly at: number;
  readonly kind: "gap";
  readonly data: Gap;
  readonly turnId?: undefined;
}

export type SessionEvent = SidecarEvent | GapEvent;

/** The reason of a gap that this client made, because nobody read for too long; any kind may be lost. */
export const UNREAD = "unread";

/** How much of a session's events is kept, in characters of their JSON. */
const LIMIT_CHARS = 8 * 1024 * 1024;

export function gapEvent(sid: string, data: Gap): GapEvent {
  return { sid, seq: data.to, at: Date.now(), kind: "gap", data };
}

/** The newest events of one session, in the order they came. Places count from 0 and are never used again. */
export class EventLog {
  /** The place of the oldest event that is kept. */
  begin = 0;
  /** The highest number that was let go. */
  lostSeq = 0;
  /** The highest number that came. */
  seq = 0;
  /** Why nothing more will come; null when all is well, undefined as long as more may come. */
  end: Error | null | undefined;
  /** Resolves at the next change. */
  changed!: Promise<void>;
  readonly #kept: { event: SessionEvent; chars: number }[] = [];
  #chars = 0;
  #wake!: () => void;

  constructor(
    readonly sid: string,
    readonly limitChars = LIMIT_CHARS,
  ) {
    this.#renew();
  }

  /** The place of the next event to come. */
  get nextPlace(): number {
    return this.begin + this.#kept.length;
  }

  at(place: number): SessionEvent | undefined {
    return this.#kept[place - this.begin]?.event;
  }

  /**
   * Add an event; the newest is kept whatever it weighs. An event counts for little more than half of the limit,
   * however long it is: so one that no reader has seen yet does not give way to the next short one.
   */
  push(event: SessionEvent): void {
    const chars = Math.min(JSON.stringify(event.data).length, Math.floor(this.limitChars / 2) + 1);
    this.#kept.push({ event, chars });
    this.#chars += chars;
    this.seq = Math.max(this.seq, event.seq);
    while (this.#chars > this.limitChars && this.#kept.length > 1) this.#letGo();
    this.wake();
  }

  /** Let readers finish what is kept; then they stop, or throw `error`. Only the first call counts. */
  close(error: Error | null): void {
    if (this.end === undefined) this.end = error;
    this.wake();
  }

  /** Let every waiting reader look again. */
  wake(): void {
    this.#wake();
    this.#renew();
  }

  #renew(): void {
    this.changed = new Promise((resolve) => (this.#wake = resolve));
  }

  #letGo(): void {
    const oldest = this.#kept.shift()!;
    this.#chars -= oldest.chars;
    this.lostSeq = Math.max(this.lostSeq, oldest.event.seq);
    this.begin += 1;
  }
}

/** One reader: each number once, ascending. It holds nothing open; `return()` ends it, waiting or not. */
export class EventStream implements AsyncIterableIterator<SessionEvent> {
  readonly #log: EventLog;
  readonly #takesPast: boolean;
  #place: number;
  #seq: number;
  #isOver = false;

  /** Read what comes from now on, with the past as it is sent again; or all after `afterSeq`, without it. */
  constructor(log: EventLog, afterSeq?: number) {
    this.#log = log;
    this.#takesPast = afterSeq === undefined;
    this.#place = this.#takesPast ? log.nextPlace : 0;
    this.#seq = afterSeq ?? log.seq;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<SessionEvent, undefined>> {
    while (!this.#isOver) {
      const value = this.#take();
      if (value !== undefined) return { value, done: false };
      if (this.#log.end === undefined) await this.#log.changed;
      else this.#finish(this.#log.end);
    }
    return { value: undefined, done: true };
  }

  return(): Promise<IteratorResult<SessionEvent, undefined>> {
    this.#isOver = true;
    this.#log.wake();
    return Promise.resolve({ value: undefined, done: true });
  }

  #finish(error: Error | null): void {
    this.#isOver = true;
    if (error !== null) throw error;
  }

  #take(): SessionEvent | undefined {
    if (this.#place < this.#log.begin) {
      this.#place = this.#log.begin;
      const gap = this.#whatIsLost();
      if (gap !== undefined) return this.#pass(gap);
    }
    while (this.#place < this.#log.nextPlace) {
      const event = this.#log.at(this.#place++)!;
      if (event.seq > this.#seq || (event.seq === 0 && this.#takesPast)) return this.#pass(event);
    }
    return undefined;
  }

  /** The notice of what was let go before this reader came to it; the past that is sent again is number 0. */
  #whatIsLost(): GapEvent | undefined {
    const { sid, lostSeq } = this.#log;
    if (lostSeq > this.#seq) return gapEvent(sid, { from: this.#seq + 1, to: lostSeq, reason: UNREAD });
    return this.#takesPast ? gapEvent(sid, { from: 0, to: 0, reason: UNREAD }) : undefined;
  }

  #pass(event: SessionEvent): SessionEvent {
    this.#seq = Math.max(this.#seq, event.seq);
    return event;
  }
}
