// The user of the console, and their rights. The coordinator decides; this only hides what it would refuse.
import { ApiError, read, send, setCsrf, whenUnauthorized } from './api/client';
import type { Session } from './api/shapes';
import { live } from './live.svelte';
import { page, router, withQuery } from './router.svelte';

export type Role = 'viewer' | 'operator' | 'admin';

const RANK: Record<string, number> = { viewer: 1, operator: 2, admin: 3 };

class Sessions {
  now = $state.raw<Session | undefined>(undefined);
  /** The coordinator has no sessions. */
  missing = $state(false);

  async start(): Promise<void> {
    whenUnauthorized(() => this.#expired());
    await this.refresh();
  }

  async refresh(): Promise<void> {
    try {
      this.#take((await read<Session>('session')).data);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.missing = error.missing;
    }
  }

  async login(credential: string): Promise<void> {
    this.#take((await read<Session>('session', { method: 'POST', body: { credential } })).data);
    live.retry();
    const back = router.param('to');
    router.go(back.startsWith('/') && !back.startsWith('//') ? back : page``, true);
  }

  async logout(): Promise<void> {
    await send('session', { method: 'DELETE' });
    // Drops everything from memory that was read under the session.
    location.assign(page`login`);
  }

  /** Whether the user has this role, so that trying makes sense. */
  may(role: Role): boolean {
    const now = this.now;
    if (!now || !now.loginRequired || this.missing) return true;
    return (RANK[now.role ?? ''] ?? 0) >= RANK[role]!;
  }

  get loggedIn(): boolean {
    return Boolean(this.now?.loginRequired && this.now.authenticated);
  }

  #take(session: Session): void {
    this.now = session;
    setCsrf(session.csrfToken ?? undefined);
    if (!session.authenticated) this.#expired();
  }

  #expired(): void {
    if (router.route?.page === 'login') return;
    const here = location.pathname + location.search;
    router.go(withQuery(page`login`, { to: here }), true);
  }
}

export const session = new Sessions();
