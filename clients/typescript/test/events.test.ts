/** The log of events: what readers see of it, and what they learn when they are too slow. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { EventLog, EventStream, type SessionEvent } from "../src/events.js";

function event(seq: number, phase = "idle"): SessionEvent {
  return { sid: "s", seq, at: 0, kind: "phase", data: { phase } };
}

/** A log with events of these numbers; each weighs 16 characters. */
function logOf(seqs: readonly number[], limitChars?: number): EventLog {
  const log = new EventLog("s", limitChars);
  for (const seq of seqs) log.push(event(seq));
  return log;
}

/** What a reader of a closed log sees: the numbers, and of a gap from where to where. */
async function read(log: EventLog, afterSeq?: number): Promise<unknown[]> {
  log.close(null);
  const seen: unknown[] = [];
  for await (const event of new EventStream(log, afterSeq)) {
    seen.push(event.kind === "gap" ? [event.data.from, event.data.to, event.data.reason] : event.seq);
  }
  return seen;
}

test("a reader sees what came after its place, each number once", async () => {
  assert.deepEqual(await read(logOf([1, 2, 3]), 1), [2, 3]);
  assert.deepEqual(await read(logOf([1, 2, 2, 1, 3]), 0), [1, 2, 3]);
});

test("a reader without a place begins with what comes next", async () => {
  const log = logOf([1, 2]);
  const stream = new EventStream(log);
  const next = stream.next();
  log.push(event(3));
  assert.equal((await next).value?.seq, 3);
});

test("the past that is sent again goes to readers without a place alone", async () => {
  const log = logOf([5]);
  const [fresh, placed] = [new EventStream(log), new EventStream(log, 5)];
  for (const seq of [0, 0, 6]) log.push(event(seq));
  assert.deepEqual([(await fresh.next()).value?.seq, (await fresh.next()).value?.seq], [0, 0]);
  assert.equal((await placed.next()).value?.seq, 6);
});

test("what was let go unread is told as a gap, once, and only to whom it concerns", async () => {
  assert.deepEqual(await read(logOf([1, 2, 3, 4], 40), 0), [[1, 2, "unread"], 3, 4]);
  assert.deepEqual(await read(logOf([1, 2, 3, 4], 40), 1), [[2, 2, "unread"], 3, 4]);
  assert.deepEqual(await read(logOf([1, 2, 3, 4], 40), 2), [3, 4]);
});

test("a past that was let go unread is a gap as well", async () => {
  const log = logOf([5], 40);
  const stream = new EventStream(log);
  for (const seq of [0, 0, 0, 0, 6]) log.push(event(seq));
  assert.deepEqual((await stream.next()).value?.data, { from: 0, to: 0, reason: "unread" });
  assert.equal((await stream.next()).value?.seq, 0);
});

test("an event that weighs more than the limit is kept as long as it is the newest", async () => {
  assert.deepEqual(await read(logOf([1, 2], 1), 0), [[1, 1, "unread"], 2]);
});

test("an event that weighs more than the limit does not give way to a short one behind it", async () => {
  const log = new EventLog("s", 64);
  log.push(event(1, "x".repeat(100)));
  for (const seq of [2, 3]) log.push(event(seq, ""));
  assert.deepEqual(await read(log, 0), [1, 2, 3]);
});

test("an error comes after what is kept, and ends the stream", async () => {
  const log = logOf([1]);
  log.close(new Error("gone"));
  log.close(null);
  const stream = new EventStream(log, 0);
  assert.equal((await stream.next()).value?.seq, 1);
  await assert.rejects(stream.next(), /gone/);
  assert.equal((await stream.next()).done, true);
});

test("return ends a stream that waits", async () => {
  const stream = new EventStream(logOf([]));
  const next = stream.next();
  await stream.return();
  assert.equal((await next).done, true);
});

test("readers that wait together share the events in order", async () => {
  const log = logOf([]);
  const stream = new EventStream(log);
  const nexts = [stream.next(), stream.next()];
  log.push(event(1));
  log.push(event(2));
  assert.deepEqual((await Promise.all(nexts)).map(({ value }) => value?.seq), [1, 2]);
});
