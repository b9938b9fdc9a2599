// Talks to the coordinator's REST API. It handles addresses, refusals and the session's CSRF token; it decides nothing.

/** A refusal, or the lack of an answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }

  /** The coordinator does not have this route (yet). */
  get missing(): boolean {
    return this.status === 404 && this.code === 'REQUEST_INVALID';
  }

  get offline(): boolean {
    return this.status === 0;
  }
}

/** A response: its body and its headers. */
export interface Answer<T> {
  data: T;
  etag: string | null;
  /** The token of the next page. */
  next: string | null;
}

export type Query = Record<string, string | number | boolean | undefined | null>;

/** Everything up to the console's own pages, with a slash at its end: a proxy may have added a prefix. */
export function baseUrl(): URL {
  return new URL('.', document.baseURI);
}

/** A name as one segment. `count` and `config` are routes, so a job of that name is encoded differently. */
export function segment(name: string): string {
  if (name === 'count' || name === 'config') return `%63${name.slice(1)}`;
  return encodeURIComponent(name);
}

/** `api\`jobs/${name}\`` with each value as one segment. */
export function api(parts: TemplateStringsArray, ...values: (string | number)[]): string {
  return parts.reduce((path, part, at) => path + segment(String(values[at - 1])) + part);
}

export function queryText(query: Query): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
}

function address(path: string, query: Query): string {
  const text = queryText(query);
  return new URL(`api/${path}${text ? `${path.includes('?') ? '&' : '?'}${text}` : ''}`, baseUrl()).href;
}

let csrf: string | undefined;
let onUnauthorized: (() => void) | undefined;
let clockOffset = 0;

/** The token that goes with changes under a session. */
export function setCsrf(token: string | undefined): void {
  csrf = token;
}

export function whenUnauthorized(then: () => void): void {
  onUnauthorized = then;
}

/** The coordinator's time minus the browser's, in milliseconds, by its answers (whole seconds). */
export function serverClockOffset(): number {
  return clockOffset;
}

interface Options {
  method?: string;
  query?: Query;
  body?: string | object;
  ifMatch?: string;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Sends a request; throws an [`ApiError`] unless it succeeds. */
export async function send(path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  const method = options.method ?? 'GET';
  if (method !== 'GET' && csrf) headers['x-csrf-token'] = csrf;
  if (options.ifMatch) headers['if-match'] = options.ifMatch;
  let body: string | undefined;
  if (options.body !== undefined) {
    body = typeof options.body === 'string' ? options.body : JSON.stringify(options.body);
    headers['content-type'] = 'application/json';
  }
  let response: Response;
  try {
    response = await fetch(address(path, options.query ?? {}), { method, headers, body, signal: options.signal });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, 'OFFLINE', 'The coordinator does not answer.');
  }
  learnClock(response);
  if (response.ok) return response;
  throw await refusal(response);
}

function learnClock(response: Response): void {
  const date = Date.parse(response.headers.get('date') ?? '');
  if (Number.isNaN(date)) return;
  // The header has whole seconds: ignore smaller differences.
  const off = date + 500 - Date.now();
  clockOffset = Math.abs(off) < 1500 ? 0 : off;
}

async function refusal(response: Response): Promise<ApiError> {
  if (response.status === 401) onUnauthorized?.();
  const text = await response.text().catch(() => '');
  try {
    const problem = JSON.parse(text) as { code?: string; detail?: string; title?: string };
    return new ApiError(response.status, problem.code ?? '', problem.detail ?? problem.title ?? text);
  } catch {
    // For example from a proxy on the way.
    const known = response.status >= 502 && response.status <= 504;
    return new ApiError(known ? 0 : response.status, '', text.slice(0, 300) || `HTTP ${response.status}`);
  }
}

/** Reads JSON, and the headers. */
export async function read<T>(path: string, options: Options = {}): Promise<Answer<T>> {
  const response = await send(path, options);
  const text = await response.text();
  const link = /<([^>]*)>;\s*rel="?next"?/.exec(response.headers.get('link') ?? '')?.[1];
  const next = link ? new URL(link, location.href).searchParams.get('cursor') : null;
  return { data: (text ? JSON.parse(text) : undefined) as T, etag: response.headers.get('etag'), next };
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await read<T>(path, { query, signal })).data;
}
