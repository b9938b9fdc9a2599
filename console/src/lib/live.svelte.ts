// Live events. One stream per tab; it resumes where it was, and is closed while the tab is hidden: browsers allow six
// connections to a server over HTTP/1.1, and hidden tabs would take them all.
import { ApiError, send } from './api/client';
import { EventParser } from './sse';

/** `open`: events come; `connecting`: not yet, or again; `offline`: no answer; `closed`: the tab is hidden. */
export type Connection = 'connecting' | 'open' | 'offline' | 'closed';

/** An event of `/api/live`. Its kind determines which fields are set. */
export interface LiveEvent {
  kind: string;
  at?: string;
  jobName?: string | null;
  item?: number;
  token?: number;
  fireTime?: string;
  source?: string;
  instanceId?: string;
  outcome?: string;
  error?: string;
  percent?: number;
  message?: string;
  count?: number;
  result?: string;
  reason?: string | null;
  what?: string;
  principal?: string | null;
}

type Listener = (event: LiveEvent) => void;

/** The first wait after a failure, doubled up to the last. */
const WAITS = [500, 8000] as const;
/** A hidden tab closes its connection after this long. */
const HIDDEN = 10_000;
/** A comment comes every 15 seconds: a stream that is silent for this long is dead. */
const SILENT = 40_000;

class Live {
  connection = $state<Connection>('connecting');
  /** Grows whenever events may have been missed: pages then read everything anew. */
  breaks = $state(0);
  #listeners = new Set<Listener>();
  #lastId = '';
  #abort: AbortController | undefined;
  #wait: number = WAITS[0];
  #hidden: ReturnType<typeof setTimeout> | undefined;
  #wake: (() => void) | undefined;
  #running = false;

  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start(): void {
    document.addEventListener('visibilitychange', () => this.#visibility());
    addEventListener('online', () => this.retry());
    addEventListener('offline', () => this.#abort?.abort());
    void this.#run();
  }

  /** Tries now instead of waiting. */
  retry(): void {
    this.#wait = WAITS[0];
    this.#wake?.();
    void this.#run();
  }

  #visibility(): void {
    clearTimeout(this.#hidden);
    if (document.hidden) {
      this.#hidden = setTimeout(() => {
        this.#running = false;
        this.#abort?.abort();
        this.#wake?.();
        this.connection = 'closed';
      }, HIDDEN);
    } else {
      this.retry();
    }
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    while (this.#running) {
      try {
        await this.#stream();
      } catch (error) {
        // Without permission the user must log in; the login restarts this.
        if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
          this.#running = false;
          this.connection = 'closed';
          return;
        }
      }
      if (!this.#running) return;
      this.connection = this.#wait === WAITS[0] ? 'connecting' : 'offline';
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, this.#wait * (0.75 + Math.random() / 2));
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wait = Math.min(this.#wait * 2, WAITS[1]);
    }
  }

  async #stream(): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    const resumed = this.#lastId;
    let silence = setTimeout(() => abort.abort(), SILENT);
    try {
      const headers = resumed ? { 'last-event-id': resumed } : undefined;
      const response = await send('live', { signal: abort.signal, headers });
      if (!response.body) return;
      // Without an id it is unknown what was missed since the pages were read.
      if (!resumed && this.connection !== 'connecting') this.breaks += 1;
      this.connection = 'open';
      this.#wait = WAITS[0];
      const parser = new EventParser(resumed);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(() => abort.abort(), SILENT);
        for (const event of parser.push(value)) this.#tell(event.id, event.kind, event.data);
      }
    } finally {
      clearTimeout(silence);
    }
  }

  #tell(id: string, kind: string, data: string): void {
    if (id) this.#lastId = id;
    if (kind === 'lost') {
      this.breaks += 1;
      return;
    }
    let event: LiveEvent;
    try {
      event = { ...(JSON.parse(data) as object), kind };
    } catch {
      this.breaks += 1;
      return;
    }
    for (const listener of this.#listeners) listener(event);
  }
}

export const live = new Live();
