// What needs attention. The coordinator's list where it has one; else what its jobs say. Pure.
import type { JobBrief } from './api/shapes';
import { duration } from './format';
import { t } from './i18n/index.svelte';
import { page, withQuery } from './router.svelte';

export interface Attention {
  kind: string;
  job?: string | null;
  item?: number | null;
  text: string;
  since?: string | null;
  /** Of the page that shows why. */
  href: string;
}

/** `GET /api/overview`. */
export interface Overview {
  attention: Attention[];
  jobs: number;
  running: number;
  firesPerMinute: number;
  workers: number;
}

/** A scheduled time that is this old is overdue, in milliseconds. */
const OVERDUE = 5000;

function of(job: JobBrief, now: number): Attention[] {
  const name = job.jobName;
  const href = page`jobs/${name}`;
  if (job.state === 'no_worker') {
    return [{ kind: 'no_worker', job: name, text: t('{job} has no worker', { job: name }), href }];
  }
  if (job.state === 'damaged') {
    return [{ kind: 'damaged', job: name, text: t('{job} is damaged', { job: name }), href }];
  }
  const next = job.nextFireTime ? Date.parse(job.nextFireTime) : Number.NaN;
  if (now - next > OVERDUE && job.state !== 'disabled' && job.state !== 'paused') {
    const late = duration(now - next);
    return [
      {
        kind: 'overdue',
        job: name,
        text: t('{job} is overdue by {late}', { job: name, late }),
        since: job.nextFireTime,
        href,
      },
    ];
  }
  const { failed, crashed, timedOut, runs } = job.counters;
  const bad = failed + crashed + timedOut;
  if (bad === 0) return [];
  const text = t('{job}: {n} of {runs} runs did not succeed', { job: name, n: bad, runs });
  const kind = crashed > 0 ? 'crashed' : 'failed';
  return [{ kind, job: name, text, href: withQuery(href, { tab: 'runs' }) }];
}

const ORDER = ['damaged', 'no_worker', 'overdue', 'crashed', 'failed'];

/** The worst first. */
export function attention(jobs: JobBrief[], now: number): Attention[] {
  const all = jobs.flatMap((job) => of(job, now));
  return all.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
}
