/** Plays the vectors of the specification. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { load, play } from "../tools/vectors/player.js";

/** Names of vectors that this client does not pass yet. Empty at every release. */
const KNOWN_FAILURES: ReadonlySet<string> = new Set();

const VECTORS = load();

for (const vector of VECTORS) {
  test(vector.name, () => {
    const problem = play(vector);
    if (KNOWN_FAILURES.has(vector.name)) assert.notEqual(problem, "", "it passes: take it off the list");
    else assert.equal(problem, "");
  });
}

test("known failures are vectors, and each has a name of its own", () => {
  const names = VECTORS.map((vector) => vector.name);
  assert.equal(new Set(names).size, names.length);
  for (const name of KNOWN_FAILURES) assert.ok(names.includes(name), name);
});
