// Changes appear live, without a reload, also after the coordinator was away.
import { accessible, choose, confirm, expect, MACHINES, open, shot, test } from '../support/test';

test.describe('what happens is seen without a reload', () => {
  test('an item moves when its worker is killed', async ({ page, cluster }) => {
    const program = ['sh', '-c', 'sleep 0.2'];
    await cluster.apply({ jobName: 'mover', shardingTotalCount: 6, cron: '0/2 * * * * ?', failover: true });
    await Promise.all(MACHINES.map((machine) => cluster.work('mover', machine, program)));
    await open(page, cluster, 'jobs/mover');
    const cells = page.locator('.cell');
    await expect(cells).toHaveCount(6);
    for (const machine of MACHINES) await expect(cells.filter({ hasText: machine })).toHaveCount(2);
    await page.evaluate(() => ((window as unknown as Record<string, boolean>).notReloaded = true));
    await shot(page, 'items-before-the-kill');
    await cluster.killWorker('mover', 'ben');
    await expect(cells.filter({ hasText: 'ben' })).toHaveCount(0);
    for (const machine of ['ann', 'cleo']) await expect(cells.filter({ hasText: machine })).toHaveCount(3);
    await shot(page, 'items-after-the-kill');
    expect(await page.evaluate(() => (window as unknown as Record<string, boolean>).notReloaded)).toBe(true);
    // The reason is one click away.
    await cells.first().click();
    if (await cluster.has('/api/jobs/{job}/sharding/{item}/explain')) {
      await expect(page.getByRole('region', { name: 'Why', exact: true })).toContainText('mover');
    }
    await shot(page, 'item-explained');
  });

  test('ownership over time shows the move, and is scrubbed by keyboard', async ({ page, cluster }) => {
    test.skip(!(await cluster.has('/api/jobs/{job}/ownership')), 'this coordinator does not keep who owned what');
    await cluster.apply({ jobName: 'scrub', shardingTotalCount: 2, cron: '0/5 * * * * ?', failover: true });
    await cluster.work('scrub', 'one', ['true']);
    await open(page, cluster, 'jobs/scrub?tab=ownership&span=5');
    const panel = page.getByRole('region', { name: 'Ownership over time' });
    const owners = panel.locator('ul.owners li');
    await expect(owners.filter({ hasText: 'one' })).toHaveCount(2);
    await cluster.work('scrub', 'two', ['true']);
    await expect(owners.filter({ hasText: 'two' })).toHaveCount(1);
    await panel.getByRole('button', { name: 'Change before' }).click();
    await panel.getByRole('slider').press('ArrowLeft');
    await expect(owners.filter({ hasText: 'one' })).toHaveCount(2);
    await expect(owners.filter({ hasText: 'two' })).toHaveCount(0);
    await shot(page, 'ownership');
    await panel.getByRole('button', { name: 'Now' }).click();
    await expect(owners.filter({ hasText: 'two' })).toHaveCount(1);
  });

  test('a run is followed from its start to its end, with its output', async ({ page, cluster }) => {
    await cluster.apply({ jobName: 'slow', shardingTotalCount: 1 });
    const go = cluster.write('go', '');
    await cluster.work('slow', 'ann', [
      'sh',
      '-c',
      `echo begun; until [ -s ${go} ]; do sleep 0.05; done; echo finished`,
    ]);
    await open(page, cluster, 'jobs/slow?tab=runs');
    await choose(page, 'Actions for slow', 'Run now');
    await confirm(page, 'Run slow now', /starts one run at once/, 'Run now');
    await page.getByRole('link', { name: 'item 0' }).first().click();
    await expect(page.locator('.head .badge')).toContainText('running');
    cluster.write('go', 'yes');
    await expect(page.locator('.head .badge')).toContainText('succeeded');
    await expect(page.getByRole('region', { name: 'Output' })).toContainText('finished');
    await expect(page.locator('.facts')).toContainText('manual');
    await accessible(page, 'a run');
    await shot(page, 'run');
  });

  test('a tab that nobody looks at gives its connection up, and catches up', async ({ page, cluster }) => {
    await cluster.apply({ jobName: 'unseen', shardingTotalCount: 1, description: 'before' });
    await page.clock.install();
    await open(page, cluster, 'jobs?q=unseen');
    await expect(page.locator('.alive')).toContainText('Live');
    await expect(page.getByText('before')).toBeVisible();
    const hidden = (value: boolean) =>
      page.evaluate((value) => {
        Object.defineProperty(document, 'hidden', { value, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
      }, value);
    await hidden(true);
    await page.clock.fastForward(11_000);
    await expect(page.locator('.alive')).toContainText('Paused');
    await cluster.apply({ jobName: 'unseen', shardingTotalCount: 1, description: 'changed meanwhile' });
    // Nothing is read, whatever becomes due.
    const read: string[] = [];
    page.on('request', (request) => read.push(request.url()));
    await page.clock.fastForward(60_000);
    await expect(page.getByText('before')).toBeVisible();
    expect(read).toEqual([]);
    await hidden(false);
    await expect(page.locator('.alive')).toContainText('Live');
    await expect(page.getByText('changed meanwhile')).toBeVisible();
  });

  test('the last events are listed on the overview', async ({ page, cluster }) => {
    await open(page, cluster, '');
    const feed = page.getByRole('region', { name: 'As it happens' });
    await expect(feed.getByRole('link', { name: /^steady\/\d$/ }).first()).toBeVisible();
    await expect(page.locator('.alive')).toContainText('Live');
  });
});

test.describe('a coordinator that is away', () => {
  test.use({
    allowed: [/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/],
  });

  test('is said to be, and what was missed is made up for', async ({ page, cluster }) => {
    await cluster.apply({ jobName: 'meanwhile', shardingTotalCount: 1, description: 'before' });
    await open(page, cluster, 'jobs');
    await expect(page.locator('.alive')).toContainText('Live');
    await expect(page.getByRole('link', { name: 'meanwhile' })).toBeVisible();
    await cluster.kill();
    await expect(page.getByRole('alert')).toContainText('The coordinator does not answer');
    await expect(page.getByRole('link', { name: 'meanwhile' })).toBeVisible();
    await shot(page, 'offline');
    await cluster.start();
    await cluster.apply({ jobName: 'meanwhile', shardingTotalCount: 1, description: 'after it came back' });
    await expect(page.locator('.alive')).toContainText('Live');
    await expect(page.getByRole('alert')).toBeHidden();
    await expect(page.getByText('after it came back')).toBeVisible();
  });
});
