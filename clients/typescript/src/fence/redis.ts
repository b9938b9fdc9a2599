/** Redis: a script compares the token and writes, with no other command in between. */

import { Fenced, type Guarded } from "./fenced.js";

/**
 * Evaluates a Lua script. ioredis: `(script, keys, args) => redis.eval(script, keys.length, ...keys, ...args)`.
 * node-redis: `(script, keys, args) => client.eval(script, { keys, arguments: args })`.
 */
export type Evaluate = (script: string, keys: string[], args: string[]) => Promise<unknown>;

// Lua counts in floating point: tokens of 63 bits are compared as text, by length and then character by character.
const COMPARE = `
local seen = redis.call('HGET', KEYS[1], 'token')
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then return {0, seen} end
`;
const SET = `${COMPARE}
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return {1, ARGV[1]}
`;
const GUARD = `${COMPARE}
redis.call('HSET', KEYS[1], 'token', ARGV[1])
return {1, ARGV[1]}
`;

/** Keys that hold a value and the token of the run that wrote it, as a hash with the fields `value` and `token`. */
export class FencedKeys {
  readonly #evaluate: Evaluate;

  constructor(evaluate: Evaluate) {
    this.#evaluate = evaluate;
  }

  /** Throws {@link Fenced} if a run with a higher token has written the key. */
  async set(key: string, value: string, run: Guarded): Promise<void> {
    this.#judge(key, run, await this.#evaluate(SET, [key], [String(run.token), value]));
  }

  /** Claims the key for the run without a value: lower tokens are refused from then on. */
  async claim(key: string, run: Guarded): Promise<void> {
    this.#judge(key, run, await this.#evaluate(GUARD, [key], [String(run.token)]));
  }

  #judge(key: string, run: Guarded, answer: unknown): void {
    if (!Array.isArray(answer)) throw new TypeError(`key ${key}: the script's answer is no array: ${String(answer)}`);
    const [written, seen] = answer as unknown[];
    if (Number(written) !== 1) throw new Fenced(`key ${key}`, run.token, BigInt(String(seen)));
  }
}
