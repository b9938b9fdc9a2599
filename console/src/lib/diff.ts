// The differences between two texts, line by line. Pure.

export interface Line {
  kind: 'same' | 'old' | 'new';
  text: string;
}

/** Beyond this many pairs of lines everything between the ends counts as changed: a job file is a few dozen lines. */
const MOST = 4_000_000;

/** The longest common lines stay, the others are old or new. */
export function lines(old: string, fresh: string): Line[] {
  const a = old.replace(/\n$/, '').split('\n');
  const b = fresh.replace(/\n$/, '').split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail])
    tail += 1;
  const same = (text: string): Line => ({ kind: 'same', text });
  return [
    ...a.slice(0, head).map(same),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same),
  ];
}

function middle(a: string[], b: string[]): Line[] {
  if (a.length * b.length > MOST) {
    return [...a.map((text): Line => ({ kind: 'old', text })), ...b.map((text): Line => ({ kind: 'new', text }))];
  }
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => longest[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const out: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ kind: 'same', text: a[i]! });
      i += 1;
      j += 1;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) {
      out.push({ kind: 'old', text: a[i]! });
      i += 1;
    } else {
      out.push({ kind: 'new', text: b[j]! });
      j += 1;
    }
  }
  return out;
}
