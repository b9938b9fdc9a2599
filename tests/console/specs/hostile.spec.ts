// Text of workers and job files is shown as text, and never executed.
import { until } from '../support/cluster';
import { expect, open, shot, test } from '../support/test';

const EVIL = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script><a href="javascript:window.pwned=1">x</a>{{7*7}}`;

test('stored HTML in every text is inert', async ({ page, cluster }) => {
  const job = 'hostile';
  await cluster.apply({
    jobName: job,
    shardingTotalCount: 2,
    description: EVIL,
    label: EVIL,
    jobParameter: EVIL,
    shardingItemParameters: `0=${EVIL.replaceAll(/[,=]/g, '')}`,
    props: { [EVIL.slice(0, 30)]: EVIL },
  });
  // Item 0 has it as its output, item 1 as its error.
  const says = cluster.write('evil.txt', EVIL);
  await cluster.work(
    job,
    'ann',
    ['sh', '-c', `if [ $ROSTERD_ITEM = 0 ]; then cat ${says}; else cat ${says} >&2; exit 1; fi`],
    ['--label', `evil=${EVIL}`],
  );
  await cluster.ask('POST', `jobs/${job}/trigger`);
  const runs = await until('both runs have ended', async () => {
    const seen = await cluster.get<{ item: number; token: number; outcome?: string; output: string; error: string }[]>(
      `runs?job=${job}`,
    );
    return seen.length === 2 && seen.every((run) => run.outcome !== undefined) && seen;
  });
  const token = (item: number) => runs.find((run) => run.item === item)!.token;
  const pages = [
    '',
    'jobs',
    `jobs/${job}`,
    `jobs/${job}?view=rows`,
    `jobs/${job}?tab=ownership`,
    `jobs/${job}?tab=runs`,
    `jobs/${job}?tab=fires`,
    `jobs/${job}?tab=config`,
    `jobs/${job}/items/0`,
    `jobs/${job}/items/1`,
    `jobs/${job}/runs/0/${token(0)}`,
    `jobs/${job}/runs/1/${token(1)}`,
    `runs?job=${job}`,
    `events?job=${job}&principal=${encodeURIComponent(EVIL)}`,
    `workers?q=${encodeURIComponent(EVIL)}`,
    `workers?q=${job}`,
    `errors/${encodeURIComponent(EVIL)}`,
    `jobs/${encodeURIComponent(EVIL)}`,
  ];
  for (const path of pages) {
    await test.step(path, async () => {
      await open(page, cluster, path);
      await expect(page.locator('.alive')).toContainText('Live');
      await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
      expect(await page.evaluate(() => (window as unknown as { pwned?: number }).pwned), path).toBeUndefined();
      expect(await page.locator('img, main script, main a[href^="javascript:"]').count(), path).toBe(0);
    });
  }
  await open(page, cluster, `jobs/${job}/runs/1/${token(1)}`);
  await expect(page.getByRole('region', { name: 'Error' })).toContainText('<script>window.pwned=1</script>');
  await shot(page, 'hostile');
});
test.use({ allowed: [/40[04]/] });
