/** Reads the vectors of clients/spec/vectors and plays them on the machine, as their README says. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { parse } from "yaml";
import type { Effect, Event } from "../../../src/machine/events.js";
import { Machine } from "../../../src/machine/machine.js";
import { StopReason, type Defeat, type EndKind, type Settings } from "../../../src/machine/types.js";
import { resolve } from "../../../src/options.js";
import { SessionRequestSchema, SessionResponseSchema } from "../../../src/proto/rosterd/v1/worker_pb.js";
import { shorten } from "../../../src/text.js";
import { seeded } from "../script.js";
import { compare, type Said, type Step } from "./expected.js";
import { fill, keyOf, runText, shown, text, WALL, type Fields, type Tree } from "./words.js";

const FOLDER = fileURLToPath(new URL("../../../../../spec/vectors/", import.meta.url));
const MOST_TICKS = 1_000;
const MAX_PROGRESS = 1_024;
const QUARTER = 250;
/** The machine's times are floats: what is due at a millisecond may be due a little after it. */
const HALF = 0.5;

export interface Vector {
  readonly name: string;
  readonly rules: readonly string[];
  readonly given?: {
    readonly servers?: readonly string[];
    readonly jobs?: readonly string[];
    readonly slots?: number;
    readonly drain_timeout?: number;
    readonly leave_timeout?: number;
    readonly credential?: boolean;
    readonly authorities?: boolean;
  };
  readonly begin?: "new" | "attached";
  readonly welcome?: Fields;
  readonly unlisted?: readonly string[];
  readonly steps: readonly Step[];
}

const DEFAULTS: Readonly<Record<string, Fields>> = {
  welcome: { lease: 5_000, heartbeat_interval: 1_000, stop_budget: 500, max_unacknowledged_reports: 64 },
  trigger: { attempt: 1, max_attempts: 1, sharding_total_count: 3, source: "NORMAL_TRIGGER", kind: "SIMPLE" },
  report_ack: { result: "ACCEPTED" },
  cancel: { reason: "OPERATOR" },
};
const STOPS: Readonly<Record<StopReason, string>> = {
  [StopReason.OPERATOR]: "operator",
  [StopReason.TIMED_OUT]: "timed_out",
  [StopReason.DRAIN]: "leaving",
  [StopReason.LEASE]: "lease",
  [StopReason.FENCED]: "fenced",
  [StopReason.DEAD]: "fenced",
};
const ENDS: Readonly<Record<string, EndKind>> = {
  succeeded: "returned",
  failed: "raised",
  fatal: "fatal",
  cancelled: "cancelled",
};

export function load(): Vector[] {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith(".yaml"));
  return files.sort().flatMap((name) => parse(readFileSync(join(FOLDER, name), "utf8")) as Vector[]);
}

/** The differences, or empty. */
export function play(vector: Vector): string {
  return new Player(vector).play();
}

class Player {
  readonly #vector: Vector;
  readonly #machine: Machine;
  readonly #jobs: readonly string[];
  #time = 0;
  // The machine's numbers of its streams, in the order of their connects.
  #streams: number[] = [];
  #acknowledges = false;
  #killed = false;
  #said: Said[] = [];
  readonly #shown = new Map<string, { percent: number; message: string; offset?: Uint8Array }>();
  // Offsets that a run holds back for a while, and when the machine gets them.
  readonly #offsets = new Map<string, { first: number; at: number }>();

  constructor(vector: Vector) {
    const { servers = ["a:1", "b:1"], jobs = ["j", "k"], slots = 4, ...given } = vector.given ?? {};
    const access = {
      ...(given.credential === true && { credential: "secret" }),
      ...(given.authorities === true && { rootCertificates: "authorities" }),
    };
    const settings: Settings = {
      servers,
      trusted: resolve({ server: servers, ...access }, {}).settings.trusted,
      namespace: "",
      address: "here",
      labels: {},
      slots,
      drainTimeoutMs: given.drain_timeout ?? 30_000,
      leaveTimeoutMs: given.leave_timeout ?? 10_000,
      connectTimeoutMs: 3_000,
      longestDelayMs: 10_000,
    };
    const registrations = jobs.map((job) => ({ job, handlerType: job, config: "", overwrite: false }));
    this.#machine = new Machine(settings, registrations, seeded(7));
    this.#jobs = jobs;
    this.#vector = vector;
  }

  play(): string {
    if (this.#vector.begin === "attached") this.#attach();
    for (const [number, step] of this.#vector.steps.entries()) {
      const streams = this.#streams.length;
      this.#step(step);
      const unlisted = new Set(step.unlisted ?? this.#vector.unlisted ?? ["run_started"]);
      if (step.acknowledge === true) unlisted.add("heartbeat");
      const left = "lost" in step ? (step.stream ?? streams) : 0;
      const listed = this.#said.filter(
        ({ kind, value }) => !unlisted.has(kind) && !(kind === "close" && value === left),
      );
      const problem = compare(step, listed);
      if (problem !== "") {
        const said = this.#said.map(({ at, kind, value }) => `${at.toFixed()} ${kind} ${text(value)}`);
        return `step ${number} at ${step.at}: ${problem}; said: ${said.join("; ")}`;
      }
      this.#said = [];
    }
    return "";
  }

  #attach(): void {
    this.#feed({ type: "start" });
    this.#feed({ type: "opened", stream: this.#last() });
    this.#receive("welcome", this.#vector.welcome ?? {}, this.#last());
    for (const job of this.#jobs) this.#receive("registered", { job, sharding_total_count: 3 }, this.#last());
    this.#said = [];
  }

  #last(): number {
    return this.#streams.at(-1) ?? 0;
  }

  #step(step: Step): void {
    this.#acknowledges = step.acknowledge === true;
    if (step.asleep !== true) this.#tickWhile(() => this.#deadline() < step.at - HALF);
    this.#time = step.at;
    this.#event(step);
    this.#tickWhile(() => this.#deadline() <= step.at + HALF);
  }

  #deadline(): number {
    return Math.min(this.#machine.deadline(), ...[...this.#offsets.values()].map(({ at }) => at));
  }

  #tickWhile(due: () => boolean): void {
    for (let ticks = 0; due(); ticks += 1) {
      if (ticks >= MOST_TICKS) throw new Error(`the machine spins at ${this.#time}`);
      this.#time = Math.max(this.#time, this.#deadline());
      for (const [run, offset] of this.#offsets) {
        if (offset.at > this.#time) continue;
        offset.at = Infinity;
        this.#tell(run);
      }
      this.#feed({ type: "tick" });
    }
  }

  // ---- events

  #event(step: Step): void {
    const stream = step.stream === undefined ? this.#last() : (this.#streams[step.stream - 1] ?? 0);
    const of = (name: string) => step[name] as Fields;
    if ("start" in step) this.#feed({ type: "start" });
    else if ("opened" in step) this.#feed({ type: "opened", stream });
    else if ("lost" in step) this.#feed({ type: "lost", stream, code: text(of("lost").code ?? ""), detail: "gone" });
    else if ("frame" in step) {
      for (const [name, fields] of Object.entries(of("frame"))) this.#receive(name, fields as Fields, stream);
    } else if ("time" in step) this.#feed({ type: "tick" });
    else if ("ended" in step) this.#ended(of("ended"));
    else if ("progress" in step) {
      const { percent, message } = of("progress");
      const run = text(of("progress").run ?? "");
      this.#show(run, { percent: Math.min(100, Number(percent)), message: text(message ?? "") });
      this.#tell(run);
    } else if ("offset" in step) this.#offset(of("offset"));
    else if ("found_expired" in step) this.#feed({ type: "expired", key: keyOf(of("found_expired")) });
    else if ("callback_ended" in step) {
      const { callback_id: id, error } = of("callback_ended");
      this.#feed({ type: "callbackEnded", id: text(id ?? ""), error: text(error ?? "") });
    } else if ("leave" in step) this.#feed({ type: "leave" });
    else if ("kill" in step) {
      this.#killed = true;
      this.#feed({ type: "quit" });
    } else throw new Error(`no event: ${Object.keys(step).join(", ")}`);
  }

  #ended(said: Fields): void {
    const { result, output, error, processed, failed, offset } = said;
    const kind = ENDS[text(result ?? "")];
    if (kind === undefined) throw new Error(`no result: ${text(result ?? "")}`);
    const ending = {
      kind,
      output: text(output ?? ""),
      error: text(error ?? ""),
      processed: Number(processed ?? 0),
      failed: Number(failed ?? 0),
      offset: offset === undefined ? undefined : Buffer.from(text(offset)),
    };
    this.#feed({ type: "ended", key: keyOf(said), ending });
  }

  // The work of run.ts before the machine gets it.

  #show(run: string, change: { percent?: number; message?: string; offset?: Uint8Array }): void {
    const shown = { percent: 0, message: "", ...this.#shown.get(run), ...change };
    shown.message = shorten(shown.message, MAX_PROGRESS);
    this.#shown.set(run, shown);
  }

  #offset(said: Fields): void {
    const run = text(said.run ?? "");
    this.#show(run, { offset: Buffer.from(text(said.offset ?? "")) });
    const { first } = this.#offsets.get(run) ?? { first: this.#time };
    this.#offsets.set(run, { first, at: Math.max(this.#time, first + QUARTER) });
  }

  #tell(run: string): void {
    const shown = this.#shown.get(run);
    if (shown !== undefined) this.#feed({ type: "progressed", key: keyOf({ run }), ...shown });
  }

  #receive(name: string, fields: Fields, stream: number): void {
    const response = create(SessionResponseSchema);
    const field = SessionResponseSchema.fields.find((one) => one.name === name);
    if (field?.message !== undefined) {
      let given: Fields = { ...DEFAULTS[name], ...fields };
      if (name === "welcome") {
        const worker = text(given.worker_id ?? "w1");
        given = { worker_id: worker, instance_id: `here@-@${worker}`, resume_key: `key of ${worker}`, ...given };
      }
      const frame = reflect(field.message);
      fill(frame, given);
      reflect(SessionResponseSchema, response).set(field, frame);
    } else if (name !== "unknown") throw new Error(`no frame: ${name}`);
    this.#feed({ type: "received", stream, frame: response });
  }

  #feed(event: Event): void {
    for (const effect of this.#machine.handle({ boot: this.#time, wall: WALL + this.#time }, event)) this.#take(effect);
  }

  // ---- effects

  #take(effect: Effect): void {
    switch (effect.type) {
      case "open":
        this.#streams.push(effect.stream);
        return this.#say("connect", effect.address);
      case "close":
        return this.#say("close", this.#streams.indexOf(effect.stream) + 1);
      case "send":
        return this.#sent(create(SessionRequestSchema, { frame: effect.frame }));
      case "startRun":
        this.#say("start", {
          run: runText(effect.key),
          attempt: effect.attempt,
          offset: Buffer.from(effect.offset).toString(),
          item_parameter: effect.trigger.itemParameter,
          job_parameter: effect.trigger.jobParameter,
          props: effect.props,
          instance_id: effect.instanceId,
        });
        return this.#feed({ type: "began", key: effect.key });
      case "stopRun":
        return this.#say("stop", { run: runText(effect.key), reason: STOPS[effect.reason] });
      case "startCallback":
        return this.#say("callback", shown(reflect(messageOf(effect.callback), effect.callback)));
      case "finish":
        return this.#say("finish", this.#killed ? "killed" : finishOf(effect.defeat));
      default:
    }
  }

  #sent(request: Message): void {
    for (const [kind, value] of Object.entries(shown(reflect(SessionRequestSchema, request as never)))) {
      if (value === null) continue;
      this.#say(kind, value);
      if (kind === "heartbeat" && this.#acknowledges) {
        this.#receive("heartbeat_ack", { sequence: (value as Fields).sequence ?? 0 }, this.#last());
      }
    }
  }

  #say(kind: string, value: Tree): void {
    this.#said.push({ at: this.#time, kind, value });
  }
}

function messageOf(message: Message): DescMessage {
  const field = SessionResponseSchema.fields.find((one) => one.message?.typeName === message.$typeName);
  if (field?.message === undefined) throw new Error(`no frame: ${message.$typeName}`);
  return field.message;
}

function finishOf(defeat: Defeat | undefined): string {
  if (defeat === undefined) return "left";
  return defeat.kind === "leave timed out" ? "unacknowledged" : defeat.kind;
}
