// The configuration: checked while the user types, shown before it is saved, saved only over what was read.
import { accessible, expect, open, shot, test } from '../support/test';

test('a file is checked, compared, and saved', async ({ page, cluster }) => {
  await cluster.apply({ jobName: 'edited', shardingTotalCount: 2, cron: '0 0 3 * * ?', description: 'nightly' });
  await open(page, cluster, 'jobs/edited?tab=config');
  const file = page.getByRole('textbox', { name: /Job file/ });
  const check = page.getByRole('region', { name: 'Check' });
  const save = page.getByRole('button', { name: 'Save' });
  await expect(file).toHaveValue(/cron: 0 0 3 \* \* \?/);
  await expect(save).toBeDisabled();
  const before = await file.inputValue();

  await file.fill(before.replace('0 0 3 * * ?', '0 0 99 * * ?'));
  await expect(check.locator('.defects')).toContainText('99');
  await expect(file).toHaveAttribute('aria-invalid', 'true');
  await expect(save).toBeDisabled();
  await shot(page, 'config-invalid');

  await file.fill(before.replace('0 0 3 * * ?', '0 30 4 * * ?'));
  await expect(check).toContainText('The file is valid.');
  await expect(check.locator('.changes')).toContainText('cron');
  if (await cluster.has('/api/jobs/config/check')) await expect(check.locator('.upcoming li')).toHaveCount(20);
  await expect(page.locator('.diff .old')).toContainText('0 0 3 * * ?');
  await expect(page.locator('.diff .new')).toContainText('0 30 4 * * ?');
  await accessible(page, 'the editor');
  await shot(page, 'config-diff');
  await save.click();
  await expect(page.getByRole('status').filter({ hasText: 'edited' })).toBeVisible();
  await expect(page.locator('.facts')).toContainText('0 30 4 * * ?');
  await expect(save).toBeDisabled();
});

test.describe('a change by somebody else meanwhile', () => {
  test.use({ allowed: [/412/] });

  test('is not overwritten', async ({ page, cluster }) => {
    await cluster.apply({ jobName: 'contested', shardingTotalCount: 2, description: 'mine' });
    await open(page, cluster, 'jobs/contested?tab=config');
    const file = page.getByRole('textbox', { name: /Job file/ });
    await expect(file).toHaveValue(/description: mine/);
    await cluster.apply({ jobName: 'contested', shardingTotalCount: 2, description: 'theirs' });
    await file.fill((await file.inputValue()).replace('mine', 'mine again'));
    await page.getByRole('button', { name: 'Save' }).click();
    await expect(page.getByRole('alert')).toContainText('CONFIG_CHANGED');
    await page.getByRole('button', { name: 'Compare with what it is now' }).click();
    await expect(page.locator('.diff .old')).toContainText('theirs');
    await expect(page.locator('.diff .new')).toContainText('mine again');
    await page.getByRole('button', { name: 'Save' }).click();
    await expect(page.getByRole('status').filter({ hasText: 'contested' })).toBeVisible();
    expect((await cluster.get<{ description: string }>('jobs/contested')).description).toBe('mine again');
  });
});

test('what is written is not lost by a click beside it', async ({ page, cluster }) => {
  await open(page, cluster, 'jobs/orphan?tab=config');
  const file = page.getByRole('textbox', { name: /Job file/ });
  await expect(file).toHaveValue(/orphan/);
  await file.fill((await file.inputValue()) + '# thought\n');
  page.once('dialog', (dialog) => dialog.dismiss());
  await page.getByRole('link', { name: 'Overview' }).click();
  await expect(file).toHaveValue(/# thought/);
  page.once('dialog', (dialog) => dialog.accept());
  await page.getByRole('link', { name: 'Overview' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Overview');
});

test('a job is made', async ({ page, cluster }) => {
  await open(page, cluster, 'jobs');
  await page.getByRole('link', { name: 'New job' }).click();
  const file = page.getByRole('textbox', { name: /Job file/ });
  await file.fill('jobName: made-here\nshardingTotalCount: 3\ncron: 0 0 1 * * ?\n');
  await page.getByRole('button', { name: 'Make the job' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('made-here');
  await expect(page.locator('.cell')).toHaveCount(3);
});
