/**
 * The jobs of this worker, and the state of each at the coordinators: requested, registered, refused, shut down. Called
 * by the machine only; sends through it.
 */

import { create } from "@bufbuild/protobuf";
import {
  RegisterSchema,
  UnregisterSchema,
  type Assignment,
  type ConfigDifference,
  type Refused,
  type Registered,
} from "../proto/rosterd/v1/worker_pb.js";
import type { Notify, SendFrame } from "./events.js";
import type { Defeat, Registration } from "./types.js";

/** A refused job is offered again after this, in case an operator has fixed it. */
const OFFER_AGAIN = 30_000;

interface Job {
  readonly registration: Registration;
  state: "asked" | "registered" | "refused" | "shut down";
  /** A coordinator has registered it, on this stream or an earlier one. */
  agreed: boolean;
  /** The last refusal, as received. */
  refusal: { defeat: Defeat; text: string } | undefined;
  offerAt: number;
  /** The fields in which its config differs from the store, as last reported. */
  differences: string;
  /** As last received; they outlive the stream. */
  props: Readonly<Record<string, string>>;
}

export class Jobs {
  readonly #jobs: ReadonlyMap<string, Job>;
  readonly #send: SendFrame;
  readonly #note: Notify;

  constructor(registrations: readonly Registration[], send: SendFrame, note: Notify) {
    this.#jobs = new Map(registrations.map((registration) => [registration.job, fresh(registration)]));
    this.#send = send;
    this.#note = note;
  }

  // ---- for Hello and for Triggers

  agreed(): string[] {
    return [...this.#jobs.values()].filter(inAgreement).map((job) => job.registration.job);
  }

  /** It is not known whether their coordinator received these, and runs that it assigned take slots here. */
  onlyAsked(): string[] {
    return [...this.#jobs.values()].filter((job) => !inAgreement(job)).map((job) => job.registration.job);
  }

  serves(name: string): boolean {
    const state = this.#jobs.get(name)?.state;
    return state === "asked" || state === "registered";
  }

  props(name: string): Readonly<Record<string, string>> {
    return this.#jobs.get(name)?.props ?? {};
  }

  // ---- frames to the coordinator

  /** After every Welcome. */
  registerAll(): void {
    for (const job of this.#jobs.values()) {
      job.offerAt = Infinity;
      // The previous coordinator may have died before it handled the Unregister.
      if (job.state === "shut down") this.#giveUp(job);
      else this.#register(job);
    }
  }

  offerAgain(boot: number): void {
    for (const job of this.#jobs.values()) if (boot >= job.offerAt) this.#register(job);
  }

  offerNoMore(): void {
    for (const job of this.#jobs.values()) job.offerAt = Infinity;
  }

  nextOffer(): number {
    return Math.min(...[...this.#jobs.values()].map((job) => job.offerAt));
  }

  #register(job: Job): void {
    job.state = "asked";
    job.offerAt = Infinity;
    this.#send({ case: "register", value: create(RegisterSchema, job.registration) });
  }

  /** Items may have been given to this worker after the shutdown was decided. */
  #giveUp(job: Job): void {
    this.#send({ case: "unregister", value: create(UnregisterSchema, { job: job.registration.job }) });
  }

  // ---- frames from the coordinator

  /** Whether the frame is about a job of this worker. */
  registered(registered: Registered): boolean {
    const job = this.#jobs.get(registered.job);
    if (job === undefined || job.state === "shut down") return false;
    job.state = "registered";
    job.agreed = true;
    job.refusal = undefined;
    job.offerAt = Infinity;
    this.#warnOfDifferences(job, registered.configDifferences);
    const next = registered.nextFireIn;
    const when = next === undefined ? "no scheduled time to come" : `next fire in ${next.seconds}s`;
    this.#note("info", `job ${registered.job}: ${registered.shardingTotalCount} items, ${when}`);
    return true;
  }

  /** The config of this worker has no effect: warns once for each set of differences. */
  #warnOfDifferences(job: Job, found: readonly ConfigDifference[]): void {
    const differences = found
      .map(
        ({ field, stored, offered }) =>
          `${field} is ${stored ?? "(none)"} in the store and ${offered ?? "(none)"} here`,
      )
      .join(", ");
    const known = job.differences;
    job.differences = differences;
    if (differences === "" || differences === known) return;
    this.#note(
      "warn",
      `the config of job ${job.registration.job} is ignored, since the job exists: ${differences}; ` +
        "register it with overwrite, or change the job by `rosterd jobs apply`",
    );
  }

  refused(boot: number, refused: Refused): void {
    const job = this.#jobs.get(refused.job);
    if (job === undefined || job.state === "shut down") return;
    const { code, message: detail } = refused;
    const text = `job '${refused.job}' was refused: ${code}: ${detail}`;
    job.state = "refused";
    job.offerAt = boot + OFFER_AGAIN;
    if (job.refusal?.text !== text) this.#note("error", `${text} (offered again from time to time)`);
    job.refusal = { defeat: { kind: "refused", code, detail, job: refused.job }, text };
  }

  shutDown(name: string, message: string): void {
    const job = this.#jobs.get(name);
    if (job === undefined) return;
    this.#note("warn", `an operator shut ${name} down here: ${message}`);
    job.state = "shut down";
    job.offerAt = Infinity;
    this.#giveUp(job);
  }

  assigned(assignment: Assignment): void {
    this.#note("debug", `items of ${assignment.job}: ${assignment.items.join(", ") || "none"}`);
    const job = this.#jobs.get(assignment.job);
    if (job !== undefined) job.props = assignment.props;
  }

  // ---- no job is left

  noneLeft(): boolean {
    return [...this.#jobs.values()].every((job) => job.state === "refused" || job.state === "shut down");
  }

  /** The refusal of the first refused job. */
  defeat(): Defeat | undefined {
    return [...this.#jobs.values()].find((job) => job.state === "refused")?.refusal?.defeat;
  }
}

function fresh(registration: Registration): Job {
  return {
    registration,
    state: "asked",
    agreed: false,
    refusal: undefined,
    offerAt: Infinity,
    differences: "",
    props: {},
  };
}

function inAgreement(job: Job): boolean {
  return job.agreed && job.state !== "shut down";
}
