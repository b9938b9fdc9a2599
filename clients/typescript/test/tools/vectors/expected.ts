/** Compares a vector's expectations with the machine's output. */

import { Millis, text, type Fields, type Tree } from "./words.js";

export interface Step extends Readonly<Record<string, unknown>> {
  readonly at: number;
  readonly stream?: number;
  readonly asleep?: boolean;
  readonly acknowledge?: boolean;
  readonly unlisted?: readonly string[];
  readonly in_order?: boolean;
  readonly expect?: readonly Fields[];
}

export interface Said {
  readonly at: number;
  readonly kind: string;
  readonly value: Tree;
}

// ---- expectations

interface Expected {
  readonly kind: string;
  readonly from: number;
  readonly to: number;
  readonly value: Tree;
}

function expectation(step: Step, one: Fields): Expected {
  const at = one.at ?? step.at;
  const [from, to] = Array.isArray(at) ? (at as [number, number]) : [Number(at), Number(at)];
  let [kind, value] = Object.entries(one).find(([name]) => name !== "at") ?? ["", null];
  if (kind === "send") [kind, value] = Object.entries(value as Fields)[0] ?? ["", null];
  return { kind, from, to, value };
}

/** The differences, or empty. */
export function compare(step: Step, said: readonly Said[]): string {
  const expected = (step.expect ?? []).map((one) => expectation(step, one));
  const kinds = (of: readonly { kind: string }[]) => of.map(({ kind }) => kind).join(", ");
  if (step.in_order === true && kinds(expected) !== kinds(said)) return `expected in this order: ${kinds(expected)}`;
  for (const kind of new Set([...expected, ...said].map((one) => one.kind))) {
    const wanted = expected.filter((one) => one.kind === kind);
    const found = said.filter((one) => one.kind === kind);
    if (wanted.length !== found.length) return `expected ${wanted.length} x ${kind}, found ${found.length}`;
    for (const [index, { from, to, value }] of wanted.entries()) {
      const one = found[index]!;
      if (one.at < from - 1 || one.at > to + 1) return `expected ${kind} at ${from} to ${to}, came at ${one.at}`;
      if (!agrees(value, one.value)) return `expected ${kind} ${text(value)}`;
    }
  }
  return "";
}

function sorted(list: readonly Tree[]): string {
  return list.map(text).sort().join();
}

function agrees(wanted: Tree, found: Tree): boolean {
  if ((found as unknown) instanceof Millis) {
    return typeof wanted === "number" && Math.abs((found as unknown as Millis).value - wanted) <= 1;
  }
  if (wanted === null || typeof wanted !== "object") {
    return typeof found === "bigint" && typeof wanted === "number" ? found === BigInt(wanted) : wanted === found;
  }
  if (Array.isArray(wanted)) {
    return Array.isArray(found) && sorted(wanted as readonly Tree[]) === sorted(found as readonly Tree[]);
  }
  const matcher = wanted as Fields;
  if ("contains" in matcher) return typeof found === "string" && found.includes(text(matcher.contains ?? ""));
  if ("bytes" in matcher) return typeof found === "string" && agrees(matcher.bytes ?? null, Buffer.byteLength(found));
  if ("at_least" in matcher) return (found as number | bigint) >= Number(matcher.at_least);
  if ("at_most" in matcher) return (found as number | bigint) <= Number(matcher.at_most);
  if ("repeat" in matcher) return text(matcher) === found;
  if (found === null || typeof found !== "object" || Array.isArray(found)) return false;
  const of = found as Fields;
  return Object.entries(matcher).every(([name, value]) => name in of && agrees(value, of[name] ?? null));
}
