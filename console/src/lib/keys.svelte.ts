// The keyboard: one table of shortcuts, shown by `?`. Two keys one after the other (`g j`) go to a page.
import { page, router } from './router.svelte';
import { themes } from './theme.svelte';
import type { Text } from './i18n/index.svelte';

export interface Shortcut {
  keys: string;
  text: Text;
  act: () => void;
}

/** The second key of a pair must come within this many milliseconds. */
const PAIR = 1500;

class Keys {
  palette = $state(false);
  help = $state(false);
  #first = '';
  #firstAt = 0;

  readonly all: Shortcut[] = [
    { keys: 'Ctrl+K', text: 'Search or jump to …', act: () => (this.palette = true) },
    { keys: '/', text: 'Search on this page', act: () => this.#search() },
    { keys: '?', text: 'Keyboard shortcuts', act: () => (this.help = true) },
    { keys: 'g o', text: 'Overview', act: () => router.go(page``) },
    { keys: 'g j', text: 'Jobs', act: () => router.go(page`jobs`) },
    { keys: 'g r', text: 'Runs', act: () => router.go(page`runs`) },
    { keys: 'g f', text: 'Fires', act: () => router.go(page`fires`) },
    { keys: 'g w', text: 'Workers', act: () => router.go(page`workers`) },
    { keys: 'g c', text: 'Cluster', act: () => router.go(page`cluster`) },
    { keys: 'g e', text: 'Events', act: () => router.go(page`events`) },
    { keys: 'g a', text: 'Alarms', act: () => router.go(page`alarms`) },
    { keys: 'n', text: 'New job', act: () => router.go(page`new-job`) },
    { keys: 'd', text: 'Dark mode', act: () => themes.toggle() },
  ];

  press(event: KeyboardEvent): void {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      this.palette = !this.palette;
      return;
    }
    const target = event.target instanceof HTMLElement ? event.target : undefined;
    const writes = target?.closest('input, textarea, select, [contenteditable="true"]');
    if (writes || event.ctrlKey || event.metaKey || event.altKey || this.palette || this.help) return;
    if (document.querySelector('[role="alertdialog"], [role="dialog"], [role="menu"]')) return;
    const pair = event.timeStamp - this.#firstAt < PAIR ? `${this.#first} ${event.key}` : '';
    const found = this.all.find(({ keys }) => keys === pair) ?? this.all.find(({ keys }) => keys === event.key);
    this.#first = event.key;
    this.#firstAt = event.timeStamp;
    if (!found) return;
    event.preventDefault();
    this.#first = '';
    found.act();
  }

  #search(): void {
    document.querySelector<HTMLInputElement>('main input[type="search"]')?.focus();
  }
}

export const keys = new Keys();
