/** Errors and return values of user code, as text. */

import { inspect } from "node:util";
import { MAX_ERROR } from "./machine/inflightrun.js";
import { shorten } from "./text.js";

/** The error in a line, then its stack, then its cause. */
export function describe(error: unknown): string {
  const lines: string[] = [];
  let prefix = "";
  for (let current = error, depth = 0; depth < 5; depth += 1) {
    if (!(current instanceof Error)) {
      lines.push(prefix + (typeof current === "string" ? current : inspect(current, { depth: 2 })));
      break;
    }
    lines.push(`${prefix}${current.name}: ${current.message}`);
    lines.push(...(current.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line)));
    if (current.cause === undefined) break;
    current = current.cause;
    prefix = "caused by ";
  }
  return shorten(lines.join("\n"), MAX_ERROR);
}

/** A handler's return value, as the run's output. */
export function textOf(result: unknown): string {
  if (result === undefined || result === null) return "";
  if (typeof result === "string") return result;
  try {
    // Functions, for example, have no JSON.
    const text: unknown = JSON.stringify(result);
    return typeof text === "string" ? text : inspect(result);
  } catch {
    return inspect(result);
  }
}
