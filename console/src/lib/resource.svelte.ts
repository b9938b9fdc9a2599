// The data of a page: read once, read anew when an event affects it, kept while the coordinator is away.
import { ApiError, read, type Query } from './api/client';
import { live, type LiveEvent } from './live.svelte';

/** What to read; `undefined`: nothing now. */
export interface Request {
  path: string;
  query?: Query;
}

export interface Options<T> {
  /** Whether an event makes it stale. Without it only a break in the events does. */
  on?: (event: LiveEvent) => boolean;
  /** Updates the data in place, replacing rows instead of changing them; `true`: complete, no read is needed. */
  apply?: (data: T, event: LiveEvent) => boolean;
  /** At most one read in this many milliseconds. */
  calm?: number;
  /** Events come a moment before their data is written: read once more this many milliseconds after a read for one. */
  behind?: number;
  /** Read again after this many milliseconds without any event. */
  every?: number;
}

/** A resource for parts of a page that do not depend on its type. */
export interface Shown {
  readonly data: unknown;
  readonly error: ApiError | undefined;
  readonly loading: boolean;
  readonly missing: boolean;
  readonly next: string | null;
  more(): Promise<void>;
}

/** Changes by events are shown after this many milliseconds. */
const SHOW = 250;

export class Resource<T> implements Shown {
  data = $state.raw<T | undefined>(undefined);
  error = $state.raw<ApiError | undefined>(undefined);
  loading = $state(true);
  /** The coordinator does not have the route: the panel is hidden. */
  missing = $state(false);
  etag = $state<string | null>(null);
  next = $state<string | null>(null);
  #request: Request | undefined;
  #abort: AbortController | undefined;
  #due: ReturnType<typeof setTimeout> | undefined;
  #readAt = 0;
  #dirty = false;
  /** An event made it stale, and the read may have been before the data was written. */
  #again = false;
  /** A read became due while nobody looked at the tab. */
  #unseen = false;
  #showing: ReturnType<typeof setTimeout> | undefined;
  #options: Options<T>;

  constructor(options: Options<T>) {
    this.#options = options;
  }

  get calm(): number {
    return this.#options.calm ?? 400;
  }

  /** Another request: data of the last one is dropped, unless only the query differs. */
  ask(request: Request | undefined): void {
    // A missing route stays missing with another query.
    if (this.missing && request && request.path === this.#request?.path) return;
    if (request?.path !== this.#request?.path) {
      this.data = undefined;
      this.missing = false;
    }
    this.#request = request;
    this.error = undefined;
    this.loading = request !== undefined;
    this.#dirty = false;
    clearTimeout(this.#due);
    void this.reload();
  }

  hear(event: LiveEvent): void {
    if (this.missing || !this.#request) return;
    if (this.data !== undefined && this.#options.apply) {
      if (this.#options.apply(this.data, event)) {
        this.#show();
        return;
      }
    }
    if (!this.#options.on?.(event)) return;
    this.#again = this.#options.behind !== undefined;
    this.stale();
  }

  /** Shows what was applied, together, at most a few times a second. */
  #show(): void {
    this.#showing ??= setTimeout(() => {
      this.#showing = undefined;
      if (Array.isArray(this.data)) this.data = [...(this.data as unknown[])] as T;
    }, SHOW);
  }

  /** Reads soon. */
  stale(): void {
    if (this.#dirty) return;
    this.#dirty = true;
    this.#later(Math.max(60, this.#readAt + this.calm - Date.now()));
  }

  /** Reads after so many milliseconds; a tab that nobody looks at, once somebody does. */
  #later(wait: number): void {
    clearTimeout(this.#due);
    this.#due = setTimeout(() => {
      this.#unseen = document.hidden;
      if (!this.#unseen) void this.reload();
    }, wait);
  }

  /** The tab is looked at again, or no longer. */
  looked(): void {
    if (this.#unseen && !document.hidden) void this.reload();
  }

  async reload(): Promise<void> {
    const request = this.#request;
    this.#abort?.abort();
    clearTimeout(this.#due);
    if (!request) return;
    const abort = new AbortController();
    this.#abort = abort;
    this.#dirty = false;
    this.#unseen = false;
    this.#readAt = Date.now();
    try {
      const answer = await read<T>(request.path, { query: request.query, signal: abort.signal });
      this.data = answer.data;
      this.etag = answer.etag;
      this.next = answer.next;
      this.error = undefined;
      this.missing = false;
    } catch (error) {
      if (abort.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.missing = error.missing;
      this.error = error;
      // Drop what no longer exists; keep the data if the coordinator could not be asked.
      if (error.status === 404) this.data = undefined;
    }
    this.loading = false;
    // If it became stale during the read, it is read soon anyway, and again after that.
    if (this.#again && !this.#dirty) {
      this.#again = false;
      this.#due = setTimeout(() => this.stale(), this.#options.behind);
      return;
    }
    const every = this.#options.every;
    if (every && !this.missing && !this.#dirty) this.#later(every);
  }

  /** Reads the next page and adds its rows. Only of lists. */
  async more(): Promise<void> {
    const request = this.#request;
    if (!request || !this.next) return;
    const answer = await read<unknown[]>(request.path, { query: { ...request.query, cursor: this.next } });
    if (request !== this.#request) return;
    this.next = answer.next;
    this.data = [...((this.data as unknown[] | undefined) ?? []), ...answer.data] as T;
  }

  stop(): void {
    this.#abort?.abort();
    clearTimeout(this.#due);
    clearTimeout(this.#showing);
    this.#request = undefined;
  }
}

/** A resource that lives as long as its component. */
export function resource<T>(request: () => Request | undefined, options: Options<T> = {}): Resource<T> {
  const made = new Resource<T>(options);
  let asked = '';
  $effect(() => {
    const wanted = request();
    const key = JSON.stringify(wanted ?? null);
    if (key === asked) return;
    asked = key;
    made.ask(wanted);
  });
  $effect(() => {
    const unlisten = live.listen((event) => made.hear(event));
    const looked = () => made.looked();
    document.addEventListener('visibilitychange', looked);
    return () => {
      unlisten();
      document.removeEventListener('visibilitychange', looked);
      made.stop();
    };
  });
  let seen = live.breaks;
  $effect(() => {
    if (live.breaks === seen) return;
    seen = live.breaks;
    made.stale();
  });
  return made;
}
