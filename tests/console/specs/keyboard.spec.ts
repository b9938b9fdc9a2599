// By keyboard alone, and in both languages.
import { accessible, expect, open, shot, test } from '../support/test';

test('the palette goes to jobs, items and pages, and acts', async ({ page, cluster }) => {
  await open(page, cluster, '');
  await page.keyboard.press('Control+k');
  const input = page.getByRole('combobox', { name: /Search or jump/ });
  await expect(input).toBeFocused();
  await input.fill('stea');
  await expect(page.getByRole('option', { name: 'steady' }).first()).toBeVisible();
  await accessible(page, 'the palette');
  await shot(page, 'palette');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('steady');

  await page.keyboard.press('Control+k');
  await input.fill('steady/3');
  await expect(page.getByRole('option', { name: 'Explain steady/3' })).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('steady, item 3');

  await page.keyboard.press('Control+k');
  await input.fill('orphan');
  await page.getByRole('option', { name: 'Pause orphan' }).click();
  const dialog = page.getByRole('alertdialog', { name: 'Pause orphan' });
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  expect(await cluster.state('orphan')).toBe('no_worker');
});

test('keys go to pages, and ? lists them', async ({ page, cluster }) => {
  await open(page, cluster, '');
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await expect(help).toContainText('Ctrl+K');
  await accessible(page, 'the shortcuts');
  await shot(page, 'shortcuts');
  await page.keyboard.press('Escape');
  await expect(help).toBeHidden();
  for (const [keys, title] of [
    ['gj', 'Jobs'],
    ['gw', 'Workers'],
    ['gc', 'Cluster'],
    ['ge', 'Events'],
    ['gf', 'Fires'],
    ['gr', 'Runs'],
    ['ga', 'Alarms'],
    ['go', 'Overview'],
  ] as const) {
    // A busy machine may press the second key too late for a pair: if nothing happens, press both again.
    await expect(async () => {
      for (const key of keys) await page.keyboard.press(key);
      await expect(page.getByRole('heading', { level: 1 })).toHaveText(title, { timeout: 2000 });
    }).toPass();
  }
  await page.keyboard.press('g');
  await page.keyboard.press('j');
  const search = page.getByRole('searchbox');
  await expect(search).toBeVisible();
  await page.keyboard.press('/');
  await expect(search).toBeFocused();
  await page.keyboard.type('orphan');
  await expect(page.locator('tbody tr')).toHaveCount(1);
  // Typing into a field is not a shortcut.
  await page.keyboard.type('gw?');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Jobs');
});

test('a menu and a dialog are used without a mouse, and give the focus back', async ({ page, cluster }) => {
  await open(page, cluster, 'jobs/steady');
  const menu = page.getByRole('button', { name: 'Actions for steady' });
  await menu.focus();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('menuitem', { name: 'Run now' })).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('alertdialog', { name: 'Pause steady' });
  await expect(dialog).toBeVisible();
  await accessible(page, 'a confirmation');
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  expect(await cluster.state('steady')).not.toBe('paused');
});

test('dark and Chinese are chosen, kept, and complete', async ({ page, cluster }) => {
  await open(page, cluster, '');
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  await page.keyboard.press('d');
  await expect.poll(back).not.toBe(light);
  await page.getByRole('button', { name: '中文' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('总览');
  await page.reload();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('总览');
  expect(await back()).not.toBe(light);
  await expect(page.locator('html')).toHaveAttribute('lang', 'zh-CN');
  for (const [path, there] of [
    ['jobs', 'tbody tr'],
    ['jobs/steady', '.cell'],
    ['jobs/steady?tab=config', '#check .fine'],
    ['workers', 'tbody tr'],
    ['cluster', 'tbody tr'],
  ] as const) {
    await open(page, cluster, path);
    await expect(page.locator(there).first()).toBeVisible();
    await accessible(page, `${path} in Chinese`);
    // The console's own texts are Chinese; only names, and columns with names, have Latin letters.
    const latin = await page.locator('nav.side, .head h1, .tabs, th, dt, .button').allTextContents();
    const english = latin
      .map((text) => text.trim())
      .filter((text) => /^[A-Za-z ]{4,}$/.test(text) && text !== 'English' && text !== 'steady');
    expect(english, path).toEqual([]);
    await shot(page, `zh-${path.replaceAll(/[^a-z]+/g, '-')}`);
  }
});
