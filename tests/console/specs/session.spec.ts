// With credentials: without a login a user sees nothing; a viewer gets no actions.
import { Cluster } from '../support/cluster';
import { accessible, expect, leave, shot, test } from '../support/test';

test.use({ allowed: [/40[13]/] });

test('a person logs in, sees what they may, and logs out', async ({ page, cluster }) => {
  test.skip(!(await cluster.has('/api/session')), 'this coordinator has no sessions');
  const guarded = new Cluster();
  const file = `${guarded.folder}/credentials.toml`;
  const secret = async (name: string, role: string) => {
    const said = await guarded.cli('credentials', 'add', '--file', file, '--role', role, name);
    return /rosterd_\S+/.exec(said)![0];
  };
  try {
    const admin = await secret('root', 'admin');
    const viewer = await secret('eve', 'viewer');
    guarded.credential = admin;
    guarded.use('--credentials', file);
    await guarded.start();
    await guarded.apply({ jobName: 'secret', shardingTotalCount: 1 });

    await page.goto(`${guarded.url}/jobs/secret`);
    await expect(page.getByRole('heading', { level: 1 })).toHaveText('Log in');
    await accessible(page, 'the login');
    await shot(page, 'login-asked');
    await page.getByLabel('Credential').fill('rosterd_wrong');
    await page.getByRole('button', { name: 'Log in' }).click();
    await expect(page.getByRole('alert')).toContainText('UNAUTHENTICATED');

    await page.getByLabel('Credential').fill(viewer);
    await page.getByRole('button', { name: 'Log in' }).click();
    // Back to where they wanted to go.
    await expect(page.getByRole('heading', { level: 1 })).toHaveText('secret');
    await expect(page.locator('.alive')).toContainText('Live');
    await expect(page.locator('.who')).toContainText('eve · viewer');
    await expect(page.getByRole('button', { name: 'Actions for secret' })).toHaveCount(0);
    expect(await page.evaluate(() => document.cookie)).toBe('');
    await shot(page, 'viewer');

    await page.getByRole('button', { name: 'Log out' }).click();
    await expect(page.getByRole('heading', { level: 1 })).toHaveText('Log in');
    await page.getByLabel('Credential').fill(admin);
    await page.getByRole('button', { name: 'Log in' }).click();
    await expect(page.getByRole('heading', { level: 1 })).toHaveText('Overview');
    await page.goto(`${guarded.url}/jobs/secret`);
    await page.getByRole('button', { name: 'Actions for secret' }).click();
    await page.getByRole('menuitem', { name: 'Pause' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Pause' }).click();
    await expect(page.locator('.head .badge')).toContainText('paused');
    await page.goto(`${guarded.url}/events`);
    await expect(page.getByRole('row', { name: /secret.*root/ }).first()).toBeVisible();
  } finally {
    await leave(page);
    await guarded.stop();
  }
});
