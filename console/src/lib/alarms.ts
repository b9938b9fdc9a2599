// A row of `GET /api/alarms`.
export interface Alarm {
  kind: string;
  jobName?: string | null;
  text: string;
  since: string;
  silenced?: boolean;
}
