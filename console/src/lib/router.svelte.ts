// Pages by address. Every address is a deep link, behind any path prefix; filters are its query.
import { baseUrl, queryText, type Query } from './api/client';

export interface Route {
  page: string;
  /** The decoded segments that are names. */
  parts: string[];
}

/** Addresses below the base, and their pages. `*` stands for a name. */
const PAGES: [string, string][] = [
  ['', 'overview'],
  ['jobs', 'jobs'],
  ['new-job', 'new-job'],
  ['jobs/*', 'job'],
  ['jobs/*/items/*', 'item'],
  ['jobs/*/runs/*/*', 'run'],
  ['runs', 'runs'],
  ['workers', 'workers'],
  ['machines/*', 'machine'],
  ['cluster', 'cluster'],
  ['fires', 'fires'],
  ['events', 'events'],
  ['alarms', 'alarms'],
  ['login', 'login'],
  ['errors/*', 'error'],
];

/** The page of a path below the base; `undefined`: there is none. */
export function match(path: string): Route | undefined {
  const given = path.replace(/\/+$/, '').split('/');
  for (const [pattern, page] of PAGES) {
    const wanted = pattern.split('/');
    if (wanted.length !== given.length) continue;
    if (!wanted.every((part, at) => (part === '*' ? given[at] !== '' : part === given[at]))) continue;
    try {
      return { page, parts: given.filter((_, at) => wanted[at] === '*').map(decodeURIComponent) };
    } catch {
      return undefined;
    }
  }
  return undefined;
}

function current(): { route: Route | undefined; query: URLSearchParams; hash: string } {
  const prefix = baseUrl().pathname;
  const path = location.pathname.startsWith(prefix) ? location.pathname.slice(prefix.length) : '';
  return { route: match(path), query: new URLSearchParams(location.search), hash: location.hash.slice(1) };
}

class Router {
  #now = $state.raw<{ route: Route | undefined; query: URLSearchParams; hash: string }>({
    route: undefined,
    query: new URLSearchParams(),
    hash: '',
  });
  /** Called before a page is left; `false` keeps it. */
  guard: (() => boolean) | undefined;

  start(): void {
    this.#now = current();
    let here = location.href;
    addEventListener('popstate', () => {
      if (this.guard && !this.guard()) {
        history.pushState(null, '', here);
        return;
      }
      here = location.href;
      this.#now = current();
    });
    document.addEventListener('click', (event) => this.#click(event));
    this.#moved = () => {
      here = location.href;
      this.#now = current();
    };
  }

  #moved: () => void = () => {};

  get route(): Route | undefined {
    return this.#now.route;
  }

  get query(): URLSearchParams {
    return this.#now.query;
  }

  param(name: string, otherwise = ''): string {
    return this.#now.query.get(name) ?? otherwise;
  }

  /** Changes filters: the back button leaves the page, not the filter. */
  set(changes: Query): void {
    const query = Object.fromEntries(this.#now.query.entries());
    for (const [key, value] of Object.entries(changes)) {
      if (value === '' || value === undefined || value === null) delete query[key];
      else query[key] = String(value);
    }
    const text = queryText(query);
    history.replaceState(null, '', location.pathname + (text ? `?${text}` : ''));
    this.#now = current();
  }

  /** Opens an address of the console. */
  go(address: string, replace = false): void {
    if (this.guard && !this.guard()) return;
    history[replace ? 'replaceState' : 'pushState'](null, '', address);
    this.#moved();
    scrollTo(0, 0);
  }

  #click(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute('download')) return;
    const to = new URL(link.href, document.baseURI);
    const base = baseUrl();
    const own = to.origin === base.origin && to.pathname.startsWith(base.pathname);
    if (!own || !match(to.pathname.slice(base.pathname.length))) return;
    event.preventDefault();
    if (to.href !== location.href) this.go(to.href);
  }
}

export const router = new Router();

/** The address of a page: `page\`jobs/${name}\``, each value as one segment. */
export function page(parts: TemplateStringsArray, ...values: (string | number)[]): string {
  const path = parts.reduce((path, part, at) => path + encodeURIComponent(String(values[at - 1])) + part);
  return new URL(path || '.', baseUrl()).pathname;
}

export function withQuery(path: string, query: Query): string {
  const text = queryText(query);
  return text ? `${path}?${text}` : path;
}
