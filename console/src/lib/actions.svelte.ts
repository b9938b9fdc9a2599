// Everything that changes something: its name, its effect, and its request to the coordinator. Each is confirmed first;
// each answer is shown in the coordinator's own words.
import { api, ApiError, read } from './api/client';
import type { JobChange } from './api/shapes';
import { t } from './i18n/index.svelte';

/** A change that waits for confirmation. */
export interface Action {
  title: string;
  /** Sentences: what will happen, and what will not. */
  consequences: string[];
  button: string;
  danger?: boolean;
  /** A choice that goes with it. */
  option?: string;
  /** A name that the user must type: for changes that cannot be undone. */
  type?: string;
  /** The names to apply it to, one after the other. */
  targets?: string[];
  run: (option: boolean) => Promise<JobChange[]>;
  /** Called after success. */
  then?: () => void;
}

interface Line {
  text: string;
  code?: string;
}

interface Told {
  id: number;
  bad: boolean;
  lines: Line[];
}

/** The most messages shown; the oldest are dropped. */
const SHOWN = 4;
/** The most lines of one message. */
const LINES = 6;
/** How long a success is shown, in milliseconds. */
const GOOD_NEWS = 6000;

class Actions {
  asked = $state.raw<Action | undefined>(undefined);
  busy = $state(false);
  error = $state.raw<ApiError | undefined>(undefined);
  told = $state.raw<Told[]>([]);
  #next = 0;

  ask(action: Action): void {
    this.error = undefined;
    this.asked = action;
  }

  dismiss(): void {
    if (!this.busy) this.asked = undefined;
  }

  async carryOut(option: boolean): Promise<void> {
    const action = this.asked;
    if (!action || this.busy) return;
    this.busy = true;
    this.error = undefined;
    try {
      const changes = await action.run(option);
      this.asked = undefined;
      this.tell(changes);
      action.then?.();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.error = error;
    } finally {
      this.busy = false;
    }
  }

  tell(changes: JobChange[]): void {
    const refused = changes.filter((change) => change.effect === 'refused');
    const lines = [...refused, ...changes.filter((change) => change.effect !== 'refused')].map((change): Line => ({
      text: withName(change),
      code: change.code ?? undefined,
    }));
    const more = lines.length - LINES;
    const shown = more > 0 ? [...lines.slice(0, LINES), { text: t('and {n} more', { n: more }) }] : lines;
    this.say(refused.length > 0, shown.length > 0 ? shown : [{ text: t('Done: there was nothing to change.') }]);
  }

  say(bad: boolean, lines: Line[]): void {
    const id = (this.#next += 1);
    this.told = [...this.told, { id, bad, lines }].slice(-SHOWN);
    if (!bad) setTimeout(() => this.forget(id), GOOD_NEWS);
  }

  forget(id: number): void {
    this.told = this.told.filter((told) => told.id !== id);
  }
}

export const actions = new Actions();

/** The coordinator's line, with the job's name if it lacks it. */
function withName({ jobName, line }: JobChange): string {
  return line.includes(jobName) ? line : `${jobName}: ${line}`;
}

async function change(
  method: string,
  path: string,
  query: Record<string, string | boolean> = {},
): Promise<JobChange[]> {
  return (await read<JobChange[]>(path, { method, query })).data;
}

/** One after the other; a refusal is one of the answers. */
async function each(names: string[], of: (name: string) => Promise<JobChange[]>): Promise<JobChange[]> {
  const done: JobChange[] = [];
  for (const name of names) {
    try {
      done.push(...(await of(name)));
    } catch (error) {
      if (!(error instanceof ApiError) || names.length === 1) throw error;
      const refused = { jobName: name, effect: 'refused', line: `${name}: ${error.message}`, code: error.code };
      done.push({ ...refused, fields: [], warnings: [] });
    }
  }
  return done;
}

function named(names: string[]): string {
  return names.length === 1 ? names[0]! : t('{n} jobs', { n: names.length });
}

const cancelToo = (): string => t('Stop the runs in flight as well (otherwise they finish)');

export const jobActions = {
  trigger: (names: string[]): Action => ({
    title: t('Run {name} now', { name: named(names) }),
    consequences: [
      t('Every enabled item starts one run at once, beside its schedule.'),
      t('An item that is running refuses the trigger, unless the option below is set.'),
    ],
    button: t('Run now'),
    option: t('Where an item is running, run it once more after that'),
    targets: names,
    run: (after) =>
      each(names, (name) => change('POST', api`jobs/${name}/trigger`, after ? { afterCurrent: true } : {})),
  }),
  pause: (names: string[]): Action => ({
    title: t('Pause {name}', { name: named(names) }),
    consequences: [
      t('Scheduled fires are held back and recorded as missed (paused). Items stay where they are.'),
      t('Runs in flight finish. Triggers by hand still work.'),
    ],
    button: t('Pause'),
    targets: names,
    run: () => each(names, (name) => change('POST', api`jobs/${name}/pause`)),
  }),
  resume: (names: string[]): Action => ({
    title: t('Resume {name}', { name: named(names) }),
    consequences: [t('Scheduled fires go on from the next one. What was missed is not made up for.')],
    button: t('Resume'),
    targets: names,
    run: () => each(names, (name) => change('DELETE', api`jobs/${name}/pause`)),
  }),
  disable: (names: string[]): Action => ({
    title: t('Disable {name}', { name: named(names) }),
    consequences: [t('No item runs any more until it is enabled again: not by schedule, and not by hand.')],
    button: t('Disable'),
    danger: true,
    option: cancelToo(),
    targets: names,
    run: (cancel) => each(names, (name) => change('POST', api`jobs/${name}/disable`, { cancel })),
  }),
  enable: (names: string[]): Action => ({
    title: t('Enable {name}', { name: named(names) }),
    consequences: [t('Its items are assigned again and run from the next scheduled time on.')],
    button: t('Enable'),
    targets: names,
    run: () => each(names, (name) => change('DELETE', api`jobs/${name}/disable`)),
  }),
  shutdown: (names: string[]): Action => ({
    title: t('Shut down the instances of {name}', { name: named(names) }),
    consequences: [
      t('Each worker that works for it now gives the job up after its runs in flight; its items go to nobody.'),
      t('Worker processes go on with their other jobs, and may register again.'),
    ],
    button: t('Shut down'),
    danger: true,
    targets: names,
    run: () => each(names, (name) => change('POST', api`jobs/${name}/shutdown`)),
  }),
  remove: (names: string[], then?: () => void): Action => ({
    title: t('Remove {name}', { name: named(names) }),
    consequences: [
      t('The job, its configuration and its assignment are deleted. This cannot be undone.'),
      t('Its history stays as long as the coordinator keeps it.'),
    ],
    button: t('Remove'),
    danger: true,
    option: cancelToo(),
    type: names.length === 1 ? names[0] : String(names.length),
    targets: names,
    run: (cancel) => each(names, (name) => change('DELETE', api`jobs/config/${name}`, { cancel })),
    then,
  }),
};

export const itemActions = {
  trigger: (job: string, item: number): Action => ({
    title: t('Run item {item} of {job} now', { item, job }),
    consequences: [t('It starts one run at once, beside its schedule. The other items are left alone.')],
    button: t('Run now'),
    option: t('Where an item is running, run it once more after that'),
    run: (after) =>
      change('POST', api`jobs/${job}/trigger`, { items: String(item), ...(after ? { afterCurrent: true } : {}) }),
  }),
  cancel: (job: string, item: number): Action => ({
    title: t('Stop the run of item {item} of {job}', { item, job }),
    consequences: [
      t('The worker is told to stop. The run ends as cancelled and is not run again for this fire.'),
      t('If it goes on after its grace, it is taken away from its worker.'),
    ],
    button: t('Stop the run'),
    danger: true,
    run: () => change('POST', api`jobs/${job}/sharding/${item}/cancel`),
  }),
  disable: (job: string, item: number): Action => ({
    title: t('Disable item {item} of {job}', { item, job }),
    consequences: [t('The item is not run any more until it is enabled again; the other items go on.')],
    button: t('Disable'),
    danger: true,
    option: cancelToo(),
    run: (cancel) => change('POST', api`jobs/${job}/sharding/${item}/disable`, { cancel }),
  }),
  enable: (job: string, item: number): Action => ({
    title: t('Enable item {item} of {job}', { item, job }),
    consequences: [t('The item is assigned again and runs from the next scheduled time on.')],
    button: t('Enable'),
    run: () => change('DELETE', api`jobs/${job}/sharding/${item}/disable`),
  }),
};

/** Of a machine; `job`: only for that job. */
function machine(address: string, job: string | undefined): { path: string; params: { machine: string; job: string } } {
  return {
    path: job === undefined ? api`servers/${address}` : api`servers/${address}/jobs/${job}`,
    params: { machine: address, job: job ?? '' },
  };
}

export const machineActions = {
  disable: (address: string, job?: string): Action => {
    const { path, params } = machine(address, job);
    return {
      title: job ? t('Disable machine {machine} for {job}', params) : t('Disable machine {machine}', params),
      consequences: [
        t('Its instances own no items any more: other machines take them over. Its processes go on running.'),
      ],
      button: t('Disable'),
      danger: true,
      option: cancelToo(),
      run: (cancel) => change('POST', `${path}/disable`, { cancel }),
    };
  },
  enable: (address: string, job?: string): Action => {
    const { path, params } = machine(address, job);
    return {
      title: job ? t('Enable machine {machine} for {job}', params) : t('Enable machine {machine}', params),
      consequences: [t('Its instances may own items again; items are assigned anew.')],
      button: t('Enable'),
      run: () => change('DELETE', `${path}/disable`),
    };
  },
  shutdown: (address: string, job?: string): Action => {
    const { path, params } = machine(address, job);
    return {
      title: job
        ? t('Shut down the instances of {job} on {machine}', params)
        : t('Shut down all instances on {machine}', params),
      consequences: [
        t('Workers on it give their jobs up after their runs in flight; other machines take the items over.'),
      ],
      button: t('Shut down'),
      danger: true,
      run: () => change('POST', `${path}/shutdown`),
    };
  },
  forget: (address: string, job?: string): Action => {
    const { path, params } = machine(address, job);
    return {
      title: job ? t('Forget machine {machine} for {job}', params) : t('Forget machine {machine}', params),
      consequences: [
        t('It is taken off the list, and with it that it was disabled. It comes back if a worker on it does.'),
      ],
      button: t('Forget'),
      danger: true,
      run: () => change('DELETE', path),
    };
  },
};

export const workerActions = {
  drain: (instance: string): Action => ({
    title: t('Drain the worker of {instance}', { instance }),
    consequences: [
      t(
        'It is given nothing any more, finishes its runs in flight, and leaves; other workers take over its items of all jobs.',
      ),
      t('Whether its process is started again is up to whoever runs it.'),
    ],
    button: t('Drain'),
    danger: true,
    run: () => change('POST', api`instances/${instance}/drain`),
  }),
};
