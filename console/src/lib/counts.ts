// Runs by interval, for charts. Pure.

/** A row of `GET /api/counts`. */
export interface Counts {
  from: string;
  jobName?: string;
  /** Those that ended in it, by outcome. */
  succeeded: number;
  failed: number;
  timedOut: number;
  crashed: number;
}

export interface Series {
  /** Seconds since 1970. */
  times: number[];
  succeeded: number[];
  failed: number[];
}

/** One value for each interval, also without runs. */
export function series(rows: Counts[], from: number, to: number, step: number): Series {
  const size = Math.max(0, Math.round((to - from) / step));
  const out: Series = {
    times: Array.from({ length: size }, (_, at) => (from + at * step) / 1000),
    succeeded: new Array<number>(size).fill(0),
    failed: new Array<number>(size).fill(0),
  };
  for (const row of rows) {
    const at = Math.floor((Date.parse(row.from) - from) / step);
    if (at < 0 || at >= size) continue;
    out.succeeded[at]! += row.succeeded;
    out.failed[at]! += row.failed + row.timedOut + row.crashed;
  }
  return out;
}
