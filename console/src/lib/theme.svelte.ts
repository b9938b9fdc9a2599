// Light, dark, or the system's setting.
export type Theme = 'system' | 'light' | 'dark';
const KEY = 'rosterd.theme';

function stored(): Theme {
  const text = localStorage.getItem(KEY);
  return text === 'light' || text === 'dark' ? text : 'system';
}

class Themes {
  chosen = $state<Theme>(stored());

  start(): void {
    this.#show();
  }

  choose(theme: Theme): void {
    this.chosen = theme;
    localStorage.setItem(KEY, theme);
    this.#show();
  }

  /** Switches to the one that is not visible now. */
  toggle(): void {
    this.choose(this.dark ? 'light' : 'dark');
  }

  get dark(): boolean {
    return this.chosen === 'dark' || (this.chosen === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
  }

  #show(): void {
    if (this.chosen === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.chosen;
  }
}

export const themes = new Themes();
