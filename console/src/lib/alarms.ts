// The coordinator's alarms, and the actions on them: silence, remove a silence, test a receiver.
import { actions, type Action } from './actions.svelte';
import { api, read } from './api/client';
import type { Alarm, Delivery, JobChange, Silence } from './api/shapes';
import { t } from './i18n/index.svelte';

/** How long a silence lasts. */
const HOUR = 3_600_000;

function told(line: string, good = true): JobChange {
  return { jobName: '', effect: good ? 'changed' : 'refused', line, fields: [], warnings: [] };
}

export function silence(alarm: Alarm, then: () => void): void {
  const id = `console-${Date.now().toString(36)}`;
  const body = { alarm: alarm.alarm, job: alarm.jobName ?? undefined, durationMs: HOUR, comment: '' };
  const action: Action = {
    title: t('Silence this alarm for an hour'),
    consequences: [
      t('Alarms of this kind and job are raised and shown as before, and nobody is told of them for an hour.'),
      t('It holds on the coordinator that answers here.'),
    ],
    button: t('Silence'),
    run: async () => {
      await read<Silence>(api`alarms/silences/${id}`, { method: 'PUT', body });
      return [told(t('Silenced for an hour.'))];
    },
    then,
  };
  actions.ask(action);
}

export function unsilence(one: Silence, then: () => void): void {
  actions.ask({
    title: t('End this silence'),
    consequences: [t('What holds is told from now on.')],
    button: t('End'),
    run: async () => {
      await read<Silence[]>(api`alarms/silences/${one.id}`, { method: 'DELETE' });
      return [told(t('The silence has ended.'))];
    },
    then,
  });
}

export function tryReceiver(name: string, then: () => void): void {
  actions.ask({
    title: t('Send a test message to {name}', { name }),
    consequences: [t('The receiver is sent one message that says that it is a test.')],
    button: t('Send'),
    run: async () => {
      const { data } = await read<Delivery[]>('alarms/test', { method: 'POST', query: { receiver: name } });
      return data.map((one) =>
        told(
          one.delivered ? t('{name} took the message.', { name: one.receiver }) : `${one.receiver}: ${one.error ?? ''}`,
          one.delivered,
        ),
      );
    },
    then,
  });
}
