// Every change that the console offers: the confirmation describes what will happen, and it happens.
import { until } from '../support/cluster';
import { choose, confirm, expect, open, shot, test } from '../support/test';

test.describe('a job', () => {
  test.beforeEach(async ({ cluster }, info) => {
    await cluster.apply({ jobName: `act-${info.workerIndex}`, shardingTotalCount: 2 });
  });

  test('is run, paused, resumed, disabled, enabled, shut down and removed', async ({ page, cluster }, info) => {
    const job = `act-${info.workerIndex}`;
    const menu = `Actions for ${job}`;
    await cluster.work(job, 'ann', ['true']);
    await open(page, cluster, `jobs/${job}`);
    const state = page.locator('.head .badge');
    const told = page.getByRole('status').filter({ hasText: job });

    await choose(page, menu, 'Run now');
    await confirm(page, `Run ${job} now`, /starts one run at once/, 'Run now');
    // It is shown for a few seconds only.
    await expect(told).toBeVisible();
    await until(
      'both items have run',
      async () =>
        (await cluster.get<{ outcome?: string }[]>(`runs?job=${job}`)).filter((run) => run.outcome === 'succeeded')
          .length === 2,
    );

    await choose(page, menu, 'Pause');
    await confirm(page, `Pause ${job}`, /recorded as missed \(paused\)/, 'Pause');
    await expect(state).toContainText('paused');
    expect(await cluster.state(job)).toBe('paused');

    await choose(page, menu, 'Resume');
    await confirm(page, `Resume ${job}`, /not made up for/, 'Resume');
    await expect(state).toContainText('enabled');

    await choose(page, menu, 'Disable');
    await shot(page, 'confirm').catch(() => {});
    await confirm(page, `Disable ${job}`, /until it is enabled again/, 'Disable', true);
    await expect(state).toContainText('disabled');
    expect(await cluster.state(job)).toBe('disabled');

    await choose(page, menu, 'Enable');
    await confirm(page, `Enable ${job}`, /assigned again/, 'Enable');
    await expect(state).toContainText('enabled');

    await choose(page, menu, 'Shut down instances');
    await confirm(page, `Shut down the instances of ${job}`, /gives the job up/, 'Shut down');
    await until(
      'the instance has given the job up',
      async () => (await cluster.get<unknown[]>(`instances?job=${job}`)).length === 0,
    );
    await expect(state).toContainText('no worker');

    await choose(page, menu, 'Remove');
    const dialog = page.getByRole('alertdialog');
    await expect(dialog).toContainText('cannot be undone');
    await expect(dialog.getByRole('button', { name: 'Remove' })).toBeDisabled();
    await dialog.getByRole('textbox').fill(job);
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await expect(page.getByRole('heading', { level: 1 })).toHaveText('Jobs');
    expect((await cluster.ask('GET', `jobs/${job}`)).status).toBe(404);
  });

  test('that is refused says why, with its code', async ({ page, cluster }, info) => {
    const job = `act-${info.workerIndex}`;
    await open(page, cluster, `jobs/${job}`);
    await choose(page, `Actions for ${job}`, 'Run now');
    await cluster.ask('DELETE', `jobs/config/${job}`);
    const dialog = page.getByRole('alertdialog');
    await dialog.getByRole('button', { name: 'Run now' }).click();
    await expect(dialog.getByRole('alert')).toContainText(job);
    await dialog.getByRole('link', { name: 'JOB_UNKNOWN' }).click();
    await expect(page.getByRole('heading', { level: 1 })).toHaveText('JOB_UNKNOWN');
  });
  test.use({ allowed: [/404/] });
});

test('several jobs are changed together, and only those that are seen', async ({ page, cluster }) => {
  await cluster.apply(
    ...['bulk-a', 'bulk-b', 'bulk-c', 'bulky'].map((jobName) => ({ jobName, shardingTotalCount: 1 })),
  );
  await open(page, cluster, 'jobs');
  await page.getByRole('searchbox').fill('bulk-');
  await expect(page.locator('tbody tr')).toHaveCount(3);
  await page.getByRole('checkbox', { name: 'Choose all' }).check();
  await page.getByRole('checkbox', { name: 'Choose bulk-c' }).uncheck();
  const bar = page.getByRole('region', { name: 'Chosen jobs' });
  await expect(bar).toContainText('2 chosen');
  await bar.getByRole('button', { name: 'Pause' }).click();
  const dialog = page.getByRole('alertdialog', { name: 'Pause 2 jobs' });
  await expect(dialog.getByRole('listitem')).toHaveText(['bulk-a', 'bulk-b']);
  await shot(page, 'bulk');
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await expect(dialog).toBeHidden();
  for (const [job, state] of [
    ['bulk-a', 'paused'],
    ['bulk-b', 'paused'],
    ['bulk-c', 'no_worker'],
    ['bulky', 'no_worker'],
  ] as const) {
    expect(await cluster.state(job), job).toBe(state);
  }
  await page.getByRole('combobox', { name: 'State' }).selectOption('paused');
  await expect(page.locator('tbody tr')).toHaveCount(2);
  // Filters are in the address.
  expect(new URL(page.url()).search).toBe('?q=bulk-&state=paused');
  await bar.getByRole('button', { name: 'Remove' }).click();
  const removal = page.getByRole('alertdialog', { name: 'Remove 2 jobs' });
  await removal.getByRole('textbox').fill('2');
  await removal.getByRole('button', { name: 'Remove' }).click();
  await expect(removal).toBeHidden();
  await expect(page.locator('tbody tr')).toHaveCount(0);
  await page.getByRole('combobox', { name: 'State' }).selectOption('');
  await expect(page.locator('tbody tr')).toHaveCount(1);
});

test('an item is run, stopped, disabled and enabled', async ({ page, cluster }) => {
  await cluster.apply({ jobName: 'itemized', shardingTotalCount: 2 });
  await cluster.work('itemized', 'ann', ['sleep', '300']);
  await open(page, cluster, 'jobs/itemized/items/1');
  const state = page.locator('.head .badge');
  const menu = 'Actions for item 1';
  await choose(page, menu, 'Run now');
  await confirm(page, 'Run item 1 of itemized now', /other items are left alone/, 'Run now');
  await expect(state).toContainText('running');
  expect((await cluster.items('itemized')).map((item) => item.status)).toEqual(['PENDING', 'RUNNING']);
  await choose(page, menu, 'Stop the run');
  await confirm(page, 'Stop the run of item 1 of itemized', /ends as cancelled/, 'Stop the run');
  await expect(page.locator('.facts')).toContainText('cancelled');
  await choose(page, menu, 'Disable');
  await confirm(page, 'Disable item 1 of itemized', /other items go on/, 'Disable');
  await expect(state).toContainText('disabled');
  await choose(page, menu, 'Enable');
  await confirm(page, 'Enable item 1 of itemized', /assigned again/, 'Enable');
  await expect(state).not.toContainText('disabled');
});

test('a machine is disabled, enabled, shut down and forgotten, for one job and for all', async ({ page, cluster }) => {
  await cluster.apply({ jobName: 'housed', shardingTotalCount: 2 });
  await cluster.work('housed', 'mill', ['true']);
  await open(page, cluster, 'machines/mill');
  const row = page.getByRole('row', { name: /housed/ });
  await choose(page, 'Actions for housed', 'Disable');
  await confirm(page, 'Disable machine mill for housed', /other machines take them over/, 'Disable');
  await expect(row).toContainText('disabled');
  await choose(page, 'Actions for housed', 'Enable');
  await confirm(page, 'Enable machine mill for housed', /assigned anew/, 'Enable');
  await expect(row).toContainText('ok');

  await open(page, cluster, 'workers');
  await choose(page, 'Actions for mill', 'Disable');
  await confirm(page, 'Disable machine mill', /other machines take them over/, 'Disable');
  const machine = page.getByRole('region', { name: 'Machines' }).getByRole('row', { name: /^mill / });
  await expect(machine).toContainText('disabled');
  await choose(page, 'Actions for mill', 'Enable');
  await confirm(page, 'Enable machine mill', /assigned anew/, 'Enable');
  await expect(machine).toContainText('enabled');
  await choose(page, 'Actions for mill', 'Shut down instances');
  await confirm(page, 'Shut down all instances on mill', /give their jobs up/, 'Shut down');
  await expect(machine).toContainText('no instance');
  await choose(page, 'Actions for mill', 'Forget');
  await confirm(page, 'Forget machine mill', /comes back if a worker/, 'Forget');
  await expect(machine).toHaveCount(0);
});

test('a worker is drained', async ({ page, cluster }) => {
  await cluster.apply({ jobName: 'drained', shardingTotalCount: 2 });
  await cluster.work('drained', 'tub', ['true']);
  await open(page, cluster, 'workers?q=drained');
  await page.getByRole('button', { name: /^Actions for tub@-@/ }).click();
  await page.getByRole('menuitem', { name: 'Drain' }).click();
  const dialog = page.getByRole('alertdialog');
  await expect(dialog).toContainText('finishes its runs in flight, and leaves');
  await dialog.getByRole('button', { name: 'Drain' }).click();
  await expect(page.getByText('No worker is attached.')).toBeVisible();
  await until('its process has ended', () => cluster.hasEnded('drained', 'tub'));
});
