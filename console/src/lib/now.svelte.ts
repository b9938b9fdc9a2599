// The coordinator's time, once a second, for relative times.
import { serverClockOffset } from './api/client';

class Now {
  /** Milliseconds since 1970. */
  ms = $state(Date.now());

  start(): void {
    const tick = () => (this.ms = Date.now() + serverClockOffset());
    tick();
    setInterval(() => {
      if (!document.hidden) tick();
    }, 1000);
    document.addEventListener('visibilitychange', tick);
  }
}

export const now = new Now();
