// Every page, in light and dark, wide and on a phone: axe finds nothing, nothing is wider than the screen.
import { accessible, expect, open, shot, test } from '../support/test';

/** Each with a selector that matches once its data is there. */
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

/** Parts that exist only if the coordinator has the route. */
const LACKS: Record<string, string> = { fires: '/api/fires', 'job-ownership': '/api/jobs/{job}/ownership' };

const WIDE = { width: 1280, height: 800 };
const PHONE = { width: 360, height: 740 };

/** In dark mode only colors differ. */
const MODES = [
  { mode: 'light', colorScheme: 'light', viewport: WIDE, asked: 'everything' },
  { mode: 'dark', colorScheme: 'dark', viewport: WIDE, asked: 'colors' },
  { mode: 'phone', colorScheme: 'light', viewport: PHONE, asked: 'everything' },
  { mode: 'phone-dark', colorScheme: 'dark', viewport: PHONE, asked: 'colors' },
] as const;

test.describe.configure({ mode: 'parallel' });

for (const [name, path, there] of PAGES) {
  test(`accessible and no wider than the screen: ${name}`, async ({ page, cluster }) => {
    test.setTimeout(240_000);
    const lacks = LACKS[name] && !(await cluster.has(LACKS[name]));
    for (const { mode, colorScheme, viewport, asked } of MODES) {
      await test.step(mode, async () => {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme });
        await open(page, cluster, path);
        if (!lacks) await expect(page.locator(there).first()).toBeVisible();
        await accessible(page, `${name}, ${mode}`, asked);
        await shot(page, `${name}-${mode}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        expect(wide, `${name} is wider than the screen`).toBeLessThanOrEqual(viewport.width);
      });
    }
  });
}
