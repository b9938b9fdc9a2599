/** Any events, in any order. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { keyId, sameItem, type Key, type KeyId } from "../../src/machine/types.js";
import * as f from "../tools/frames.js";
import { RAISED, RETURNED, Script, seeded } from "../tools/script.js";

class Storm {
  readonly script = new Script({ slots: 3 });
  readonly inside = new Map<KeyId, Key>();
  readonly #chance: () => number;

  constructor(seed: number) {
    this.#chance = seeded(seed);
  }

  #whole(from: number, to: number): number {
    return from + Math.floor(this.#chance() * (to - from + 1));
  }

  #one<T>(from: readonly T[]): T {
    return from[this.#whole(0, from.length - 1)]!;
  }

  step(n: number): void {
    const { script } = this;
    const before = script.effects.length;
    const item = this.#whole(0, 2);
    const actions: (() => void)[] = [
      () => script.recv(f.trigger(this.#whole(Math.max(1, n - 5), n), { item, maxAttempts: 2 })),
      () => script.recv(f.trigger(this.#whole(Math.max(1, n - 5), n), { item, startsInMs: 200 })),
      () => {
        script.opened();
      },
      () => script.recv(f.welcome(this.#one(["w1", "w1", "w1", `w${n}`]), { credits: 2 })),
      () => {
        script.wait(this.#one([100, 1_000, 4_000]), { answer: this.#chance() < 0.8 });
      },
      () => {
        script.lost();
      },
      () => {
        this.#endOne();
      },
      () => script.recv(f.reportAck(this.#whole(1, n), { item })),
      () => script.recv(f.cancel(this.#whole(1, n), this.#one(["OPERATOR", "FENCED"]))),
    ];
    this.#one(actions)();
    for (const effect of script.effects.slice(before)) if (effect.type === "startRun") this.#start(effect.key);
  }

  #endOne(): void {
    if (this.inside.size === 0) return;
    const ended = this.#one([...this.inside.values()]);
    this.inside.delete(keyId(ended));
    this.script.feed({ type: "ended", key: ended, ending: this.#one([RETURNED, RAISED]) });
  }

  #start(key: Key): void {
    assert.ok(!this.inside.has(keyId(key)));
    for (const other of this.inside.values()) assert.ok(!sameItem(key, other), "two runs of one item");
    this.inside.set(keyId(key), key);
    assert.ok(this.inside.size <= 3);
  }
}

for (let seed = 0; seed < 30; seed += 1) {
  test(`no item is twice in user code and none starts without a lease, seed ${seed}`, () => {
    const storm = new Storm(seed);
    const { machine } = storm.script;
    for (let n = 1; n <= 400; n += 1) {
      storm.step(n);
      assert.ok(machine.reportsUnderWay <= 2);
      if (storm.script.time >= machine.leaseStopsAt) assert.ok(!machine.hasUnstopped);
    }
    assert.ok(machine.deadline() > storm.script.time);
  });
}
