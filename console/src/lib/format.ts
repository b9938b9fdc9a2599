// Times and numbers for people. Pure: now and the language are arguments.

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
];

const relatives = new Map<string, Intl.RelativeTimeFormat>();

/** "in 12 seconds", "3 min. ago". */
export function relative(at: number, now: number, locale: string): string {
  let format = relatives.get(locale);
  if (!format) {
    format = new Intl.RelativeTimeFormat(locale, { style: 'short', numeric: 'auto' });
    relatives.set(locale, format);
  }
  const away = at - now;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(away) >= size) ?? UNITS[3]!;
  return format.format(Math.trunc(away / size), unit);
}

/** Local time; with the date if it is another day. */
export function clock(at: number, now: number, locale: string): string {
  const time = new Date(at);
  const sameDay = time.toDateString() === new Date(now).toDateString();
  const clock = time.toLocaleTimeString(locale, { hour12: false });
  if (sameDay) return clock;
  return `${time.toLocaleDateString(locale, { year: 'numeric', month: '2-digit', day: '2-digit' })} ${clock}`;
}

/** Everything about a moment: local, with its zone, and UTC. */
export function full(at: number, locale: string): string {
  const local = new Date(at).toLocaleString(locale, { dateStyle: 'full', timeStyle: 'long', hour12: false });
  return `${local} · ${new Date(at).toISOString()}`;
}

/** "850 ms", "12.3 s", "4 min 10 s", "3 h 2 min". */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

export function count(value: number, locale: string): string {
  return value.toLocaleString(locale);
}

/** Converts a value of `<input type="datetime-local">`, in local time, to RFC 3339; empty stays empty. */
export function fromInput(text: string): string {
  const at = Date.parse(text);
  return Number.isNaN(at) ? '' : new Date(at).toISOString();
}

/** The reverse. */
export function toInput(text: string): string {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return '';
  const local = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}
