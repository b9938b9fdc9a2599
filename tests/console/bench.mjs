// Measures the console in a real browser, for `cargo xtask bench --only console`: `bench.mjs URL PAGES`. Says what it measured as lines
// of JSON; goes on with each line that it is told; ends when nobody tells it anything any more.
import { chromium } from '@playwright/test';
import { createInterface } from 'node:readline';

const [url, pages] = process.argv.slice(2);
const orders = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath, args });
try {
  const context = await browser.newContext();
  const page = await context.newPage();
  // Warms the browser up, not the page: another origin than the console's.
  await page.goto('about:blank');
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  let bytes = 0;
  session.on('Network.loadingFinished', (event) => (bytes += event.encodedDataLength));
  await page.goto(`${url}/jobs`);
  await page.locator('tbody tr').first().waitFor();
  const measured = await page.evaluate(() => ({
    paint: Math.round(performance.getEntriesByName('first-contentful-paint')[0].startTime),
    rows: Math.round(performance.now()),
  }));
  console.log(JSON.stringify({ ...measured, bytes }));
  await orders.next();
  const since = Date.now();
  for (let opened = 1; opened < Number(pages); opened += 1) {
    const one = await browser.newPage();
    // Half of them on the overview, half on the list.
    await one.goto(`${url}/${opened % 2 === 0 ? '' : 'jobs'}`);
    await one.locator('.alive.open').waitFor({ timeout: 60_000 });
  }
  console.log(JSON.stringify({ seconds: (Date.now() - since) / 1000 }));
  await orders.next();
} finally {
  await browser.close();
}
