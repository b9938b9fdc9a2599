/**
 * Writes that a replaced run can no longer do: each carries the run's fencing token, and the store refuses it once it
 * has seen a higher one.
 *
 * The lease makes two runs of an item at a time rare; a process that was frozen in the middle of a write can still
 * resume after its lease. Only the store can detect that. These helpers need only the client library that the program
 * has anyway.
 *
 * @packageDocumentation
 */

export { Fenced, type Guarded } from "./fenced.js";
export { FencedFile } from "./file.js";
export { assertCurrent, createTokens, fenceTransaction, type Queryable } from "./postgres.js";
export { FencedKeys, type Evaluate } from "./redis.js";
export { FencedObject, type ObjectHead, type ObjectStore } from "./s3.js";
