// Asks the coordinator what a job file would do, without doing it.
import { ApiError, read } from './api/client';
import type { FieldChange, JobChange } from './api/shapes';

export interface Defect {
  field?: string;
  message: string;
}

export interface Checked {
  /** Of the job that the file is of. */
  jobName?: string;
  defects: Defect[];
  warnings: string[];
  /** What would differ from what is stored. */
  fields: FieldChange[];
  /** The next scheduled times. */
  upcoming: string[];
  /** It could not be checked. */
  error?: ApiError;
}

/** What `POST /api/jobs/config/check` answers. */
interface Answer {
  jobName?: string | null;
  defects: Defect[];
  warnings?: string[];
  fields?: FieldChange[];
  upcoming?: string[];
}

export async function check(text: string, signal: AbortSignal): Promise<Checked> {
  try {
    const { data } = await read<Answer>('jobs/config/check', { method: 'POST', body: text, signal });
    return {
      jobName: data.jobName ?? undefined,
      defects: data.defects,
      warnings: data.warnings ?? [],
      fields: data.fields ?? [],
      upcoming: data.upcoming ?? [],
    };
  } catch (error) {
    if (!(error instanceof ApiError) || !(error.missing || error.status === 405)) throw error;
    return dryRun(text, signal);
  }
}

/** A coordinator without that route still says what an apply would do. */
async function dryRun(text: string, signal: AbortSignal): Promise<Checked> {
  const none = { defects: [], warnings: [], fields: [], upcoming: [] };
  try {
    const { data } = await read<JobChange[]>('jobs/config', {
      method: 'PUT',
      body: text,
      query: { dryRun: true },
      signal,
    });
    const change = data[0];
    return { ...none, jobName: change?.jobName, warnings: change?.warnings ?? [], fields: change?.fields ?? [] };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    return { ...none, defects: [{ message: error.message }] };
  }
}

/** The name that a file gives, as far as a glance tells. */
export function nameOf(text: string): string | undefined {
  return /^\s*["']?(?:jobName|job-name)["']?\s*:\s*["']?([^"',\s]+)/m.exec(text)?.[1];
}
