// What pages share about jobs: which actions fit a state, and how live events change a row. Pure except for the
// actions.
import type { MenuEntry } from '../ui/Menu.svelte';
import { actions, itemActions, jobActions } from './actions.svelte';
import type { JobBrief, Sharding } from './api/shapes';
import { t } from './i18n/index.svelte';
import type { LiveEvent } from './live.svelte';
import { session } from './session.svelte';

/** The actions for a job in its state. `removed`: called after it was removed. */
export function jobMenu(job: JobBrief, removed?: () => void): MenuEntry[] {
  if (!session.may('operator')) return [];
  const names = [job.jobName];
  const paused = job.state === 'paused';
  const disabled = job.state === 'disabled';
  const entries: MenuEntry[] = [
    { text: t('Run now'), icon: 'play', act: () => actions.ask(jobActions.trigger(names)) },
    paused
      ? { text: t('Resume'), icon: 'play', act: () => actions.ask(jobActions.resume(names)) }
      : { text: t('Pause'), icon: 'pause', act: () => actions.ask(jobActions.pause(names)) },
    disabled
      ? { text: t('Enable'), icon: 'check', act: () => actions.ask(jobActions.enable(names)) }
      : { text: t('Disable'), icon: 'ban', danger: true, act: () => actions.ask(jobActions.disable(names)) },
    { text: t('Shut down instances'), icon: 'stop', danger: true, act: () => actions.ask(jobActions.shutdown(names)) },
  ];
  if (session.may('admin')) {
    const remove = () => actions.ask(jobActions.remove(names, removed));
    entries.push({ text: t('Remove'), icon: 'cross', danger: true, act: remove });
  }
  return entries;
}

/** The actions for an item in its state. */
export function itemMenu(job: string, item: Sharding): MenuEntry[] {
  if (!session.may('operator')) return [];
  const number = item.item;
  const running = item.status === 'RUNNING';
  return [
    { text: t('Run now'), icon: 'play', act: () => actions.ask(itemActions.trigger(job, number)) },
    ...(running
      ? [
          {
            text: t('Stop the run'),
            icon: 'stop',
            danger: true,
            act: () => actions.ask(itemActions.cancel(job, number)),
          } as MenuEntry,
        ]
      : []),
    item.status === 'DISABLED'
      ? { text: t('Enable'), icon: 'check', act: () => actions.ask(itemActions.enable(job, number)) }
      : { text: t('Disable'), icon: 'ban', danger: true, act: () => actions.ask(itemActions.disable(job, number)) },
  ];
}

const COUNTED: Record<string, keyof JobBrief['counters']> = {
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'cancelled',
  crashed: 'crashed',
  timed_out: 'timedOut',
};

/** The place of each row; cached as long as the list is the same. */
const places = new WeakMap<JobBrief[], Map<string, number>>();

/** Updates the row of a job whose run has begun or ended. `false`: another kind of event. */
export function applyRun(jobs: JobBrief[], event: LiveEvent): boolean {
  if (event.kind !== 'run_started' && event.kind !== 'run_ended') return event.kind === 'run_progress';
  let known = places.get(jobs);
  if (!known) {
    known = new Map(jobs.map((job, at) => [job.jobName, at]));
    places.set(jobs, known);
  }
  const place = known.get(event.jobName ?? '');
  const job = place === undefined ? undefined : jobs[place];
  if (place === undefined || !job) return false;
  if (event.kind === 'run_started') {
    const counters = { ...job.counters, runs: job.counters.runs + 1 };
    jobs[place] = { ...job, running: job.running + 1, counters };
    return true;
  }
  const outcome = COUNTED[event.outcome ?? ''];
  const counters = { ...job.counters };
  if (outcome && outcome !== 'missed') counters[outcome] += 1;
  jobs[place] = { ...job, running: Math.max(0, job.running - 1), counters };
  return true;
}
