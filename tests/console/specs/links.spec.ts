// Every page is an address: filters, sort order and tabs are in it, and it opens as it was.
import { expect, open, test } from '../support/test';

test('filters and sort order stand in the address, and open as they were', async ({ page, cluster }) => {
  await open(page, cluster, 'jobs');
  await page.getByRole('button', { name: 'State' }).click();
  // What needs attention first.
  await expect(page.locator('tbody tr').first()).toContainText('no worker');
  await page.getByRole('button', { name: 'State' }).click();
  await expect(page.getByRole('columnheader', { name: 'State' })).toHaveAttribute('aria-sort', 'descending');
  await page.getByRole('searchbox').fill('every two');
  await expect(page.locator('tbody tr')).toHaveCount(1);
  const address = page.url();
  expect(new URL(address).search).toBe('?sort=-state&q=every+two');
  await page.goto('about:blank');
  await page.goto(address);
  await expect(page.getByRole('searchbox')).toHaveValue('every two');
  await expect(page.locator('tbody tr')).toHaveCount(1);
  await expect(page.getByRole('link', { name: 'steady' })).toBeVisible();
});

test('a step back leaves the page, and what was there is there again', async ({ page, cluster }) => {
  await open(page, cluster, 'jobs?q=steady');
  await page.getByRole('link', { name: 'steady' }).click();
  await page.getByRole('link', { name: 'Runs' }).nth(1).click();
  await expect(page.getByRole('region', { name: 'Runs', exact: true }).locator('tbody tr').first()).toBeVisible();
  await page.goBack();
  await expect(page.locator('.cell')).toHaveCount(6);
  await page.goBack();
  await expect(page.getByRole('searchbox')).toHaveValue('steady');
});

test('what is wrong is found on the overview, and why is one click away', async ({ page, cluster }) => {
  await open(page, cluster, '');
  const attention = page.getByRole('region', { name: 'Needs attention' });
  await attention
    .getByRole('link', { name: /orphan/ })
    .first()
    .click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('orphan');
  await expect(page.locator('main')).toContainText(/no worker|no owner/);
});

test('names in any script, and those of routes, are reached', async ({ page, cluster }) => {
  for (const jobName of ['清算', 'count', 'config', 'отчёт-1']) {
    await cluster.apply({ jobName, shardingTotalCount: 1 });
    await open(page, cluster, 'jobs');
    await page.getByRole('link', { name: jobName, exact: true }).click();
    await expect(page.getByRole('heading', { level: 1 })).toHaveText(jobName);
    await expect(page.locator('.cell')).toHaveCount(1);
    await page.locator('.cell').click();
    await expect(page.getByRole('heading', { level: 1 })).toHaveText(`${jobName}, item 0`);
    await expect(page.locator('.facts')).toBeVisible();
  }
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 360, height: 740 } });

  test('the menu goes to pages, and closes', async ({ page, cluster }) => {
    await open(page, cluster, '');
    const menu = page.getByRole('button', { name: 'Menu' });
    await menu.click();
    await expect(menu).toHaveAttribute('aria-expanded', 'true');
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Workers' }).click();
    await expect(page.getByRole('heading', { level: 1 })).toHaveText('Workers');
    await expect(page.getByRole('navigation', { name: 'Pages' })).toBeHidden();
  });
});
