// Who looks at the console, and what they may do. The coordinator decides; this only hides what would be refused.
import { ApiError, read, send, setCsrf, whenUnauthorized } from './api/client';
import { live } from './live.svelte';
import { page, router, withQuery } from './router.svelte';

export type Role = 'viewer' | 'operator' | 'admin';

/** `GET /api/session`. */
export interface Session {
  /** Who asks is known, or nobody needs to be. */
  authenticated: boolean;
  /** Credentials are asked for at all. */
  loginRequired: boolean;
  /** The credential's name. */
  principal?: string | null;
  role?: string | null;
  csrfToken?: string | null;
  /** The ways to log in: `credential`, `oidc`. */
  logins: { kind: string; href?: string | null }[];
}

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
    // Nothing that was read under the session stays in memory.
    location.assign(page`login`);
  }

  /** Whether somebody with this role may be let try. */
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
