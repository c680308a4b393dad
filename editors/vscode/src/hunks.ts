/**
 * What a user keeps of a proposed change, by its text: each part of the change is kept, refused, or edited.
 *
 * The daemon names the parts (hunks) of a change by their lines before and after it, and takes an answer for each. Here
 * the lines between the parts must stay as they are; what stands between them in the text is what was kept.
 */

import type { Diff, HunkAnswer } from "./wire";

/** A part as the text has it, with its first line there. */
export interface Piece {
  at: number;
  lines: string[];
  before: string[];
  proposed: string[];
}

/** The lines of a text with their ends, which are line feeds alone, as the daemon counts them. */
export function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+/g) ?? [];
}

/** What `text` has in the place of each part; undefined if other lines were edited. */
export function split(diff: Diff, text: string): Piece[] | undefined {
  return find(diff, text, true) ?? find(diff, text, false);
}

/** Where a part may end in several places, one that was kept or refused whole is preferred, or else the first. */
function find({ oldText, newText, hunks }: Diff, text: string, prefersWhole: boolean): Piece[] | undefined {
  const [old, proposed, lines] = [linesOf(oldText ?? ""), linesOf(newText), linesOf(text)];
  const hasAt = (part: string[], at: number) => at + part.length <= lines.length && part.every((line, offset) => lines[at + offset] === line);
  let at = hunks[0]?.newStart ?? proposed.length;
  if (!hasAt(proposed.slice(0, at), 0)) return undefined;
  const pieces: Piece[] = [];
  for (const [number, hunk] of hunks.entries()) {
    const next = hunks[number + 1];
    const stays = proposed.slice(hunk.newEnd, next?.newStart);
    const piece = { at, before: old.slice(hunk.oldStart, hunk.oldEnd), proposed: proposed.slice(hunk.newStart, hunk.newEnd) };
    const whole = next !== undefined && prefersWhole ? [piece.proposed, piece.before].find((part) => hasAt([...part, ...stays], at)) : undefined;
    let end = next === undefined ? Math.max(at, lines.length - stays.length) : at + (whole?.length ?? 0);
    while (next !== undefined && end + stays.length <= lines.length && !hasAt(stays, end)) end++;
    if (!hasAt(stays, end)) return undefined;
    pieces.push({ ...piece, lines: lines.slice(at, end) });
    at = end + stays.length;
  }
  return at === lines.length ? pieces : undefined;
}

/** The answers about the parts of diff `number` that are not kept as proposed; undefined if other lines were edited. */
export function answersFor(diff: Diff, number: number, text: string): HunkAnswer[] | undefined {
  return split(diff, text)?.flatMap(({ lines, before, proposed }, hunk): HunkAnswer[] => {
    const kept = lines.join("");
    if (kept === proposed.join("")) return [];
    if (kept === before.join("")) return [{ diff: number, hunk, accepted: false }];
    return [{ diff: number, hunk, accepted: true, text: kept }];
  });
}

/** The part nearest to a line, from 0. */
export function nearest(pieces: Piece[], line: number): Piece | undefined {
  const distance = ({ at, lines }: Piece) => Math.max(at - line, line - Math.max(at, at + lines.length - 1), 0);
  return [...pieces].sort((one, other) => distance(one) - distance(other))[0];
}
