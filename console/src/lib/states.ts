// The look of each state of the API: its tone and its icon.
import type { IconName } from '../ui/Icon.svelte';

export type Tone = 'good' | 'bad' | 'warn' | 'busy' | 'calm';
export interface Look {
  tone: Tone;
  icon: IconName;
}

const LOOKS: Record<string, Look> = {};
function all(tone: Tone, icon: IconName, ...states: string[]): void {
  for (const state of states) LOOKS[state] = { tone, icon };
}

all(
  'good',
  'check',
  'OK',
  'enabled',
  'COMPLETED',
  'succeeded',
  'TASK_FINISHED',
  'run',
  'serving',
  'attached',
  'resolved',
);
all('busy', 'play', 'RUNNING', 'TASK_RUNNING', 'running');
all('calm', 'wait', 'PENDING', 'pending', 'TASK_STAGING', 'starting', 'misfired', 'requested');
all('warn', 'wait', 'SHARDING_FLAG', 'resharding', 'draining', 'removing', 'overdue', 'late');
all('warn', 'pause', 'paused', 'suspended', 'silenced');
all('warn', 'stop', 'cancelled', 'TASK_KILLED', 'skipped', 'left', 'stopped');
all('calm', 'ban', 'DISABLED', 'disabled');
all('bad', 'cross', 'failed', 'TASK_ERROR', 'TASK_FAILED', 'timed_out', 'refused', 'missed', 'clock_off', 'clock');
all('bad', 'crash', 'CRASHED', 'crashed', 'TASK_LOST', 'dead', 'damaged', 'lost');
all('bad', 'workers', 'no_worker', 'unassigned');
all('bad', 'cluster', 'store');
all('warn', 'fires', 'not_run');
all('calm', 'question', 'unknown', 'TASK_UNKNOWN');

export function look(state: string): Look {
  return LOOKS[state] ?? { tone: 'calm', icon: 'question' };
}
