// What every test has: a coordinator with three workers, and a page that fails the test when its console shows an error.
import AxeBuilder from '@axe-core/playwright';
import { test as base, expect, type Page } from '@playwright/test';
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Cluster } from './cluster';

export { expect };

const SHOTS = fileURLToPath(new URL('../../../target/console-tests/screenshots/', import.meta.url));
mkdirSync(SHOTS, { recursive: true });

/** Machines of the steady job. */
export const MACHINES = ['ann', 'ben', 'cleo'];

interface Shared {
  cluster: Cluster;
}

interface Each {
  /** Lines of the browser's console that are expected; every other error fails the test. */
  allowed: RegExp[];
}

export const test = base.extend<Each, Shared>({
  cluster: [
    // eslint-disable-next-line no-empty-pattern
    async ({}, use) => {
      const cluster = new Cluster();
      await cluster.start();
      await cluster.apply(
        {
          jobName: 'steady',
          shardingTotalCount: 6,
          cron: '0/2 * * * * ?',
          failover: true,
          description: 'runs every two seconds',
          shardingItemParameters: '0=Beijing,1=Shanghai,2=Shenzhen',
        },
        { jobName: 'orphan', shardingTotalCount: 2, cron: '0/5 * * * * ?', description: 'nobody works for it' },
      );
      await Promise.all(
        MACHINES.map((machine) =>
          cluster.work('steady', machine, ['sh', '-c', 'echo "item $ROSTERD_ITEM"; sleep 0.2']),
        ),
      );
      await use(cluster);
      await cluster.stop();
    },
    { scope: 'worker', timeout: 60_000 },
  ],
  allowed: [[], { option: true }],
  page: async ({ page, cluster, allowed }, use) => {
    const errors: string[] = [];
    const absent = await absentRoutes(cluster);
    const note = (text: string, url: string) => {
      // The console hides what a coordinator does not have.
      if (absent.some((route) => route.test(new URL(url, cluster.url).pathname))) return;
      if (!allowed.some((one) => one.test(text))) errors.push(`${text} (${url})`);
    };
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') note(message.text(), message.location().url);
    });
    page.on('pageerror', (error) => note(`uncaught: ${error.message}`, page.url()));
    await use(page);
    expect(errors, 'errors in the console of the browser').toEqual([]);
  },
});

/** Parts of the API that the console does without. */
const OPTIONAL = [
  '/api/session',
  '/api/overview',
  '/api/counts',
  '/api/fires',
  '/api/alarms',
  '/api/jobs/config/check',
  '/api/jobs/{job}/ownership',
  '/api/jobs/{job}/sharding/{item}/explain',
  '/api/runs/{job}/{item}/{token}',
];

async function absentRoutes(cluster: Cluster): Promise<RegExp[]> {
  const absent: string[] = [];
  for (const route of OPTIONAL) if (!(await cluster.has(route))) absent.push(route);
  return absent.map((route) => new RegExp(`^${route.replaceAll(/\{[^}]*\}/g, '[^/]+')}$`));
}

/** Opens a page of the console. */
export async function open(page: Page, cluster: Cluster, path: string): Promise<void> {
  await page.goto(`${cluster.url}/${path}`);
  await expect(page.locator('h1')).toBeVisible();
}

/** Closes the page before its coordinator is killed: an open page would log errors. */
export async function leave(page: Page): Promise<void> {
  await page.goto('about:blank');
}

/** A screenshot that is kept. */
export async function shot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: `${SHOTS}${name}.png`, animations: 'disabled' });
}

/** The rows of a table that are checked: the others are alike, and axe needs a second for about twenty. */
const ROWS = 8;

/** Axe finds nothing; with `colors`, only color rules are checked. */
export async function accessible(
  page: Page,
  what: string,
  asked: 'everything' | 'colors' = 'everything',
): Promise<void> {
  const axe = new AxeBuilder({ page }).exclude(`tbody tr:nth-child(n + ${ROWS + 1})`);
  const found = await (
    asked === 'colors'
      ? axe.withRules(['color-contrast'])
      : axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'])
  ).analyze();
  const said = found.violations.map(
    (one) =>
      `${one.id}: ${one.help}: ${one.nodes
        .slice(0, 3)
        .map((node) => `${node.target.join(' ')} ${node.failureSummary ?? ''}`)
        .join(' | ')}`,
  );
  expect(said, `axe on ${what}`).toEqual([]);
}

/** Chooses an entry of a menu. */
export async function choose(page: Page, menu: string, entry: string): Promise<void> {
  await page.getByRole('button', { name: menu, exact: true }).click();
  await page.getByRole('menuitem', { name: entry, exact: true }).click();
}

/** Confirms the dialog with that title, which describes what will happen. */
export async function confirm(
  page: Page,
  title: string,
  consequence: RegExp,
  button: string,
  option = false,
): Promise<void> {
  const dialog = page.getByRole('alertdialog', { name: title });
  await expect(dialog).toContainText(consequence);
  if (option) await dialog.getByRole('checkbox').check();
  await dialog.getByRole('button', { name: button, exact: true }).click();
  await expect(dialog).toBeHidden();
}
