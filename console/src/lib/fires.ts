// A row of `GET /api/fires`.
import type { Fire } from './api/shapes';

export interface FireOfJob extends Fire {
  jobName: string;
  /** Why it was not run, in the coordinator's words. */
  text?: string | null;
}
