// Why a scheduled time was not run, in a sentence. Pure.
import { t, word, type Text } from './i18n/index.svelte';

const REASONS: Record<string, Text> = {
  down: 'No coordinator was up.',
  no_worker: 'No enabled worker owned the item.',
  no_slot: 'All slots of the owner were taken.',
  too_late: 'It was found due too long after its time.',
  clock: "The coordinator's clock could not be trusted.",
  paused: 'The job was paused.',
  disabled: 'The job or the item was disabled.',
};

export function whyNot(result: string, reason: string | null | undefined): string {
  if (result === 'misfired') return t('The run before it was still going; it was merged into the next one.');
  if (result === 'skipped') return t('The policy of the job skips it.');
  if (result !== 'missed') return '';
  const known = REASONS[reason ?? ''];
  return known ? t(known) : word(reason);
}
