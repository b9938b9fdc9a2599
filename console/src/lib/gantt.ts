// The positions of the bars of ownership. Pure.

import type { Ownership as Row } from './api/shapes';

/** A time in which an instance owned an item; `to` absent: it still does. */
export type Ownership = Pick<Row, 'item' | 'instanceId' | 'from' | 'to'> & Partial<Row>;

export interface Bar {
  row: Ownership;
  /** A fraction of the whole, 0 to 1. */
  start: number;
  width: number;
}

/** The bars of each item within [from, to], items ascending. */
export function lanes(rows: Ownership[], from: number, to: number): { item: number; bars: Bar[] }[] {
  const found = new Map<number, Bar[]>();
  for (const row of rows) {
    const begins = Math.max(from, Date.parse(row.from));
    const ends = Math.min(to, row.to ? Date.parse(row.to) : to);
    if (ends < from || begins > to || ends < begins) continue;
    const bar = { row, start: (begins - from) / (to - from), width: (ends - begins) / (to - from) };
    const lane = found.get(row.item);
    if (lane) lane.push(bar);
    else found.set(row.item, [bar]);
  }
  return [...found.entries()].sort(([a], [b]) => a - b).map(([item, bars]) => ({ item, bars }));
}

/** The owner of each item at a moment. */
export function at(rows: Ownership[], moment: number): Ownership[] {
  const then = rows.filter((row) => Date.parse(row.from) <= moment && (!row.to || Date.parse(row.to) > moment));
  return then.sort((a, b) => a.item - b.item);
}

/** The changes of owner between two moments, the latest first. */
export function moments(rows: Ownership[], from: number, to: number): number[] {
  const all = rows.flatMap((row) => [Date.parse(row.from), row.to ? Date.parse(row.to) : Number.NaN]);
  return [...new Set(all.filter((moment) => moment >= from && moment <= to))].sort((a, b) => b - a);
}
