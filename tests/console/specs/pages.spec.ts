// Every page, in light and dark, wide and on a phone: axe finds nothing, nothing is wider than the screen.
import { accessible, expect, open, shot, test } from '../support/test';

/** Each with what is there once its data is. */
const PAGES: [name: string, path: string, there: string][] = [
  ['overview', '', '.attention li'],
  ['jobs', 'jobs', 'tbody tr'],
  ['job', 'jobs/steady', '.cell'],
  ['job-rows', 'jobs/steady?view=rows', 'tbody tr'],
  ['job-ownership', 'jobs/steady?tab=ownership&span=5', 'ul.owners li'],
  ['job-runs', 'jobs/steady?tab=runs', 'tbody tr'],
  ['job-fires', 'jobs/steady?tab=fires', 'tbody tr'],
  ['job-config', 'jobs/steady?tab=config', '#check .fine'],
  ['item', 'jobs/steady/items/2', 'tbody tr'],
  ['runs', 'runs', 'tbody tr'],
  ['fires', 'fires', 'tbody tr'],
  ['workers', 'workers', 'tbody tr'],
  ['machine', 'machines/ann', 'tbody tr'],
  ['cluster', 'cluster', 'tbody tr'],
  ['events', 'events', 'tbody tr'],
  ['alarms', 'alarms', 'h1'],
  ['new-job', 'new-job', 'textarea'],
  ['error', 'errors/JOB_UNKNOWN', '.lead'],
  ['login', 'login', 'h1'],
  ['nowhere', 'no/such/page', 'h1'],
];

/** What is there only where the coordinator has it. */
const LACKS: Record<string, string> = { fires: '/api/fires', 'job-ownership': '/api/jobs/{job}/ownership' };

const MODES = [
  { mode: 'light', colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  { mode: 'dark', colorScheme: 'dark', viewport: { width: 1280, height: 800 } },
  { mode: 'phone', colorScheme: 'light', viewport: { width: 360, height: 740 } },
  { mode: 'phone-dark', colorScheme: 'dark', viewport: { width: 360, height: 740 } },
] as const;

for (const { mode, colorScheme, viewport } of MODES) {
  test.describe(mode, () => {
    test.use({ colorScheme, viewport });
    test(`every page is accessible and fits: ${mode}`, async ({ page, cluster }) => {
      test.setTimeout(240_000);
      for (const [name, path, there] of PAGES) {
        await test.step(name, async () => {
          await open(page, cluster, path);
          const lacks = LACKS[name] && !(await cluster.has(LACKS[name]));
          if (!lacks) await expect(page.locator(there).first()).toBeVisible();
          await accessible(page, `${name}, ${mode}`);
          await shot(page, `${name}-${mode}`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth);
          expect(wide, `${name} is wider than the screen`).toBeLessThanOrEqual(viewport.width);
        });
      }
    });
  });
}
