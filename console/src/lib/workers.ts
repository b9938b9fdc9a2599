// Groups instances by process. Pure.
import type { Instance } from './api/shapes';

export interface Worker {
  /** Its instance id, the same under all its jobs. */
  id: string;
  jobs: Instance[];
  items: number;
  running: number;
  slots: number;
  enabled: boolean;
  coordinator: string;
  client: string;
  labels: Record<string, string>;
}

export function workers(instances: Instance[]): Worker[] {
  const found = new Map<string, Worker>();
  for (const one of instances) {
    const known = found.get(one.instanceId);
    if (known) {
      known.jobs.push(one);
      known.items += one.items;
      known.running += one.running;
      known.enabled &&= one.enabled;
      continue;
    }
    const { instanceId: id, items, running, slots, enabled, coordinator, client, labels } = one;
    found.set(id, { id, jobs: [one], items, running, slots, enabled, coordinator, client, labels });
  }
  return [...found.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}
