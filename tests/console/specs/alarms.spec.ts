// An alarm is active, silenced, notified again, and resolved; and the trace of a run is a link.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Cluster, until } from '../support/cluster';
import { accessible, confirm, expect, leave, open, shot, test } from '../support/test';

/** A webhook that records what it receives. */
async function webhook() {
  const told: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      told.push(body);
      response.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { told, url: `http://127.0.0.1:${port}/hook`, close: () => server.close() };
}

const TRACES = 'https://traces.example.org/trace/{trace_id}?from=rosterd';

test('an alarm stands, is silenced, is told, is over; the trace of a run is a link', async ({ page }) => {
  test.setTimeout(120_000);
  const hook = await webhook();
  const own = new Cluster();
  const file = own.write(
    'rosterd.toml',
    `trace_url = "${TRACES}"
[alarms]
interval = "1s"
group = "0s"
[[alarms.receivers]]
name = "duty"
form = "webhook"
url = "${hook.url}"
[[alarms.receivers]]
name = "nobody-there"
form = "webhook"
url = "http://127.0.0.1:9/"
[[alarms.rules]]
alarm = "no_worker"
after = "0s"
`,
  );
  own.use('--config', file);
  try {
    await own.start();
    await own.apply({ jobName: 'lonely', shardingTotalCount: 1, cron: '0/2 * * * * ?' });

    await open(page, own, 'alarms');
    const panel = (title: string) => page.getByRole('region', { name: title, exact: true });
    const standing = panel('Standing alarms');
    await expect(standing.getByRole('listitem')).toContainText('lonely has no enabled worker');
    await expect(standing).toContainText('told: duty');
    await expect(panel('Receivers').getByRole('listitem').filter({ hasText: 'nobody-there' })).toContainText('refused');
    await accessible(page, 'alarms that stand');
    await shot(page, 'alarms-standing');
    expect(hook.told.join()).toContain('no_worker:lonely');

    await standing.getByRole('button', { name: 'Silence' }).click();
    await confirm(page, 'Silence this alarm for an hour', /nobody is told/, 'Silence');
    await expect(standing.locator('.badge', { hasText: 'silenced' })).toBeVisible();
    const silences = panel('Silences');
    await expect(silences.getByRole('listitem')).toContainText('lonely');
    await shot(page, 'alarms-silenced');
    await silences.getByRole('button', { name: 'End' }).click();
    await confirm(page, 'End this silence', /told from now on/, 'End');
    await expect(silences).toHaveCount(0);

    const before = hook.told.length;
    await panel('Receivers').getByRole('listitem').filter({ hasText: 'duty' }).getByRole('button').click();
    await confirm(page, 'Send a test message to duty', /one message/, 'Send');
    await until('the test message', () => hook.told.slice(before).some((body) => body.includes('"test":true')));

    // A worker attaches: the alarm is resolved, without a reload.
    await own.work('lonely', 'ann', ['true']);
    await expect(panel('Over lately').getByRole('listitem').first()).toContainText('lonely');
    await expect(standing).toContainText('No alarm stands.');
    await accessible(page, 'alarms that are over');
    await shot(page, 'alarms-over');

    await page.goto(`${own.url}/jobs/lonely?tab=runs`);
    await page.locator('tbody a[href*="/runs/"]').first().click();
    const trace = page.getByRole('link', { name: /^[0-9a-f]{32}$/ });
    const id = await trace.textContent();
    await expect(trace).toHaveAttribute('href', TRACES.replace('{trace_id}', id!));
    await shot(page, 'run-trace');
  } finally {
    await leave(page);
    await own.stop();
    hook.close();
  }
});
