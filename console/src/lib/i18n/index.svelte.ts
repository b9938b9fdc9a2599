// English and Chinese. The English text is the key, so a page reads as it looks; a text without Chinese does not
// compile.
import { zh } from './zh';

export type Text = keyof typeof zh;
export type Language = 'en' | 'zh';
export type Params = Record<string, string | number>;

const KEY = 'rosterd.language';

function first(): Language {
  const stored = localStorage.getItem(KEY);
  if (stored === 'en' || stored === 'zh') return stored;
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

class Languages {
  chosen = $state<Language>(first());

  start(): void {
    this.#show();
  }

  choose(language: Language): void {
    this.chosen = language;
    localStorage.setItem(KEY, language);
    this.#show();
  }

  get locale(): string {
    return this.chosen === 'zh' ? 'zh-CN' : 'en-GB';
  }

  #show(): void {
    document.documentElement.lang = this.chosen === 'zh' ? 'zh-CN' : 'en';
  }
}

export const languages = new Languages();

/** `{name}` stands for a value, `{n:item|items}` for a word that depends on a number. */
export function fill(text: string, params: Params): string {
  return text.replace(/\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g, (whole, name: string, one?: string, many?: string) => {
    const value = params[name];
    if (value === undefined) return whole;
    if (one === undefined || many === undefined) return String(value);
    return Number(value) === 1 ? one : many;
  });
}

/** A text in the chosen language. */
export function t(text: Text, params: Params = {}): string {
  const chosen = languages.chosen === 'zh' ? zh[text] : text;
  return fill(chosen, params);
}

/** A word of the API in the chosen language; an unknown one stays as it is. */
export function word(value: string | undefined | null): string {
  if (!value) return '';
  const plain = value.toLowerCase().replaceAll('_', ' ');
  return plain in zh ? t(plain as Text) : plain;
}
