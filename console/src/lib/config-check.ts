// Asks the coordinator what a job file would change, without applying it.
import { read, type ApiError } from './api/client';
import type { Checked as Answer } from './api/shapes';

export interface Checked extends Partial<Answer> {
  /** It could not be checked. */
  error?: ApiError;
}

export async function check(text: string, signal: AbortSignal): Promise<Checked> {
  return (await read<Answer>('jobs/config/check', { method: 'POST', body: text, signal })).data;
}

/** The name in a file, by a quick search. */
export function nameOf(text: string): string | undefined {
  return /^\s*["']?(?:jobName|job-name)["']?\s*:\s*["']?([^"',\s]+)/m.exec(text)?.[1];
}
