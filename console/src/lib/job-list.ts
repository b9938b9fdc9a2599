// Which jobs a list shows, and in which order. Pure.
import type { JobBrief } from './api/shapes';

export const STATES = ['enabled', 'no_worker', 'paused', 'disabled', 'resharding', 'removing', 'damaged'] as const;
export type SortKey = 'name' | 'state' | 'next' | 'items' | 'running' | 'instances' | 'bad';

/** When sorted by state, what needs attention comes first. */
const URGENCY = ['damaged', 'no_worker', 'removing', 'resharding', 'paused', 'disabled', 'enabled'];
/** After every time. */
const NEVER = Number.MAX_SAFE_INTEGER;

const KEYS: Record<SortKey, (job: JobBrief) => number | string> = {
  name: (job) => job.jobName,
  state: (job) => URGENCY.indexOf(job.state),
  next: (job) => (job.nextFireTime ? Date.parse(job.nextFireTime) : NEVER),
  items: (job) => job.shardingTotalCount,
  running: (job) => job.running,
  instances: (job) => job.instanceCount,
  bad: (job) => job.counters.failed + job.counters.crashed + job.counters.timedOut,
};

export interface Wanted {
  search: string;
  state: string;
  /** A key, with `-` before it in descending order. */
  sort: string;
}

export function filtered(jobs: JobBrief[], wanted: Wanted): JobBrief[] {
  const part = wanted.search.trim().toLowerCase();
  const found = jobs.filter(
    (job) =>
      (wanted.state === '' || job.state === wanted.state || job.status === wanted.state) &&
      (part === '' || job.jobName.toLowerCase().includes(part) || job.description.toLowerCase().includes(part)),
  );
  const descending = wanted.sort.startsWith('-');
  const name = descending ? wanted.sort.slice(1) : wanted.sort;
  const key = KEYS[name in KEYS ? (name as SortKey) : 'name'];
  const sign = descending ? -1 : 1;
  const keyed = found.map((job) => ({ job, key: key(job) }));
  keyed.sort((a, b) => {
    if (a.key !== b.key) return (a.key < b.key ? -1 : 1) * sign;
    return a.job.jobName < b.job.jobName ? -1 : 1;
  });
  return keyed.map(({ job }) => job);
}
