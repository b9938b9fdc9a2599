/** Plays the driver and the coordinator for one machine, with a clock that only the script moves. */

import assert from "node:assert/strict";
import type { Effect, Event, Frame } from "../../src/machine/events.js";
import { Machine } from "../../src/machine/machine.js";
import type { Ending, EndKind, Key, Settings } from "../../src/machine/types.js";
import type { SessionResponse } from "../../src/proto/rosterd/v1/worker_pb.js";
import * as f from "./frames.js";

const WALL = 1_700_000_000_000;
const SETTINGS: Settings = {
  servers: ["a:1", "b:1"],
  namespace: "",
  address: "10.0.0.1",
  labels: {},
  slots: 4,
  drainTimeoutMs: 30_000,
  leaveTimeoutMs: 10_000,
  connectTimeoutMs: 3_000,
  longestDelayMs: 10_000,
};

export const RETURNED: Ending = { kind: "returned", output: "done" };
export const RAISED: Ending = { kind: "raised", error: "ValueError: no" };

export const key = (token: number, item = 0): Key => f.ref(token, item);

type Kind = NonNullable<Frame["case"]>;
type ValueOf<K extends Kind> = Extract<Frame, { case: K }>["value"];
type EffectOf<T extends Effect["type"]> = Extract<Effect, { type: T }>;

/** Random numbers that are the same each time. */
export function seeded(seed: number): () => number {
  let state = seed * 2654435761 + 1;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function sends<K extends Kind>(effects: readonly Effect[], kind: K): ValueOf<K>[] {
  return effects.flatMap((effect) =>
    effect.type === "send" && effect.frame.case === kind ? [effect.frame.value as ValueOf<K>] : [],
  );
}

export class Script {
  readonly machine: Machine;
  time = 100_000;
  stream = 0;
  effects: Effect[] = [];

  constructor(parts: { jobs?: string[] } & Partial<Settings> = {}) {
    const { jobs = ["hello"], ...settings } = parts;
    const registrations = jobs.map((job) => ({ job, handlerType: job, config: "", overwrite: false }));
    this.machine = new Machine({ ...SETTINGS, ...settings }, registrations, seeded(7));
    this.feed({ type: "start" });
  }

  feed(event: Event): Effect[] {
    const effects = this.machine.handle({ boot: this.time, wall: WALL + this.time }, event);
    for (const effect of effects) if (effect.type === "open") this.stream = effect.stream;
    this.effects.push(...effects);
    return effects;
  }

  recv(frame: SessionResponse, stream = this.stream): Effect[] {
    return this.feed({ type: "received", stream, frame });
  }

  /** Lets time pass; a driver ticks at the machine's deadlines. `answer`: acknowledges heartbeats. */
  wait(length: number, { answer = false, step = 50 } = {}): void {
    const end = this.time + length;
    while (this.time < end) {
      this.time = Math.min(end, Math.max(this.time + 0.001, Math.min(this.machine.deadline(), this.time + step)));
      for (const beat of sends(this.feed({ type: "tick" }), "heartbeat")) {
        if (answer) this.recv(f.heartbeatAck(beat.sequence));
      }
    }
  }

  opened(): void {
    this.feed({ type: "opened", stream: this.stream });
  }

  lost(code = "UNAVAILABLE", detail = "gone"): void {
    this.feed({ type: "lost", stream: this.stream, code, detail });
  }

  attach(workerId = "w1", parts: f.WelcomeParts = {}): this {
    this.opened();
    this.recv(f.welcome(workerId, parts));
    return this;
  }

  reattach(workerId = "w1", parts: f.WelcomeParts = {}): void {
    const before = this.stream;
    this.lost();
    while (this.stream === before) this.wait(10);
    this.attach(workerId, parts);
  }

  clear(): void {
    this.effects = [];
  }

  sent<K extends Kind>(kind: K): ValueOf<K>[] {
    return sends(this.effects, kind);
  }

  all<T extends Effect["type"]>(type: T): EffectOf<T>[] {
    return this.effects.filter((effect): effect is EffectOf<T> => effect.type === type);
  }

  reports(): [number, string][] {
    return this.sent("runCompleted").map((report) => [Number(report.run?.token), f.outcome(report)]);
  }

  started(): number[] {
    return this.all("startRun").map((start) => Number(start.key.token));
  }

  stopped(): [number, string][] {
    return this.all("stopRun").map((stop) => [Number(stop.key.token), stop.reason]);
  }

  notes(level: string): string[] {
    return this.all("note")
      .filter((note) => note.level === level)
      .map((note) => note.text);
  }

  began(token: number, item = 0): void {
    this.feed({ type: "began", key: key(token, item) });
  }

  end(token: number, ending: Ending | EndKind = RETURNED, item = 0): void {
    this.feed({ type: "ended", key: key(token, item), ending: typeof ending === "string" ? { kind: ending } : ending });
  }
}

export function attached(parts: ConstructorParameters<typeof Script>[0] = {}): Script {
  return new Script(parts).attach();
}

export function running(token = 5, parts: f.TriggerParts = {}): Script {
  const script = attached();
  script.recv(f.trigger(token, parts));
  script.began(token, parts.item);
  assert.deepEqual(script.started(), [token]);
  return script;
}

export function near(actual: number, expected: number, tolerance = 1e-3): void {
  assert.ok(Math.abs(actual - expected) <= tolerance, `${actual} is not near ${expected}`);
}
