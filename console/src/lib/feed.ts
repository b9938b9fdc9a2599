// Live events as lines. Pure.
import { t, word } from './i18n/index.svelte';
import { short } from './instance';
import type { LiveEvent } from './live.svelte';
import { page } from './router.svelte';

export interface FeedLine {
  state: string;
  name: string;
  href?: string;
  text: string;
}

export function describe(event: LiveEvent): FeedLine {
  const job = event.jobName ?? '';
  const item = event.item ?? 0;
  const by = short(event.instanceId ?? '');
  switch (event.kind) {
    case 'run_started':
      return {
        state: 'running',
        name: `${job}/${item}`,
        href: page`jobs/${job}/runs/${item}/${event.token ?? 0}`,
        text: by,
      };
    case 'run_ended': {
      const text = event.error ? `${by}: ${event.error}` : by;
      return {
        state: event.outcome ?? 'unknown',
        name: `${job}/${item}`,
        href: page`jobs/${job}/runs/${item}/${event.token ?? 0}`,
        text,
      };
    }
    case 'fires_not_run': {
      const why = event.reason ? word(event.reason) : '';
      return {
        state: event.result ?? 'missed',
        name: `${job}/${item}`,
        href: page`jobs/${job}/items/${item}`,
        text: t('{n} {n:fire|fires} {why}', { n: event.count ?? 1, why }),
      };
    }
    case 'assigned':
      return { state: 'assigned', name: job, href: page`jobs/${job}`, text: t('items were assigned') };
    case 'worker':
      return { state: event.what ?? 'unknown', name: by, href: page`workers`, text: '' };
    default: {
      const who = event.principal ? `${event.principal}: ` : '';
      return { state: 'changed', name: job, href: job ? page`jobs/${job}` : undefined, text: who + (event.what ?? '') };
    }
  }
}
