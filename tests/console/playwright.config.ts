// The web console in Debian's Chromium. No browser is ever downloaded; artifacts are below target/console-tests.
import { defineConfig } from '@playwright/test';

export const OUT = '../../target/console-tests';

export default defineConfig({
  testDir: './specs',
  outputDir: `${OUT}/results`,
  // Two, each with a coordinator and workers of its own.
  workers: 2,
  fullyParallel: false,
  // A flaky test has failed.
  retries: 0,
  forbidOnly: true,
  timeout: 90_000,
  expect: { timeout: 20_000 },
  reporter: [['list']],
  use: {
    browserName: 'chromium',
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    // TRACE=1 keeps a trace of each test, which makes them slow.
    trace: process.env.TRACE ? 'on' : 'off',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      // As root, for example on build machines, Chromium cannot sandbox itself.
      args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
    },
  },
});
