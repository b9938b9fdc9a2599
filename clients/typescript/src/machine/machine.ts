/**
 * The worker's side of the conversation, without I/O: events in, effects out, `now` is an argument.
 *
 * Decides when to connect and where, what to send, which run may start, which must stop, and when the worker may leave.
 * It reads no clock, opens nothing and calls no user code: thread/driver.ts does, on a thread of its own, and is its
 * only caller. Every method returns at once. All times are milliseconds.
 */

import { create } from "@bufbuild/protobuf";
import {
  CancelReason,
  DrainRequestSchema,
  GoodbyeSchema,
  HeartbeatSchema,
  HelloSchema,
  type Callback,
  type SessionResponse,
  type Shutdown,
  type Trigger,
  type Welcome,
} from "../proto/rosterd/v1/worker_pb.js";
import { VERSION } from "../version.js";
import { Callbacks } from "./callbacks.js";
import type { Effect, Event, Frame, Level } from "./events.js";
import { InFlight } from "./inflight.js";
import { Jobs } from "./jobs.js";
import { Lease } from "./lease.js";
import { Leaving, waitsFor } from "./leaving.js";
import { Route, type Chance } from "./route.js";
import { instant, millis, span, stamp } from "./time.js";
import { OneWayDelay } from "./onewaydelay.js";
import { keyOf, StopReason, type Defeat, type Now, type Registration, type Settings } from "./types.js";

/** How long a Hello waits for its Welcome. */
const WELCOME_TIMEOUT = 6_000;
/** While leaving, the backoff stays short: there is little time. */
const LONGEST_DELAY_LEAVING = 1_000;
/** Before any Welcome: trying again with the same Hello would change nothing. */
const FINAL: ReadonlySet<string> = new Set([
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "UNIMPLEMENTED",
]);

type Link =
  | "down"
  | "opening"
  /** Hello was sent, Welcome has not arrived. */
  | "greeting"
  | "live"
  /** Finish was sent: further events are ignored. */
  | "over";

export class Machine {
  readonly #settings: Settings;
  readonly #jobs: Jobs;
  readonly #route: Route;
  readonly #lease = new Lease();
  readonly #delay = new OneWayDelay();
  readonly #inFlight: InFlight;
  readonly #callbacks: Callbacks;
  #out: Effect[] = [];

  #link: Link = "down";
  #stream = 0;
  #server = "";
  // The deadline of the link's current step: to retry, to be open, to be welcomed.
  #linkBy = Infinity;
  #helloSent = 0;
  #lastFrame = 0;
  // The last frame that renewed the lease.
  #lastRenewed = 0;
  #lastHeartbeat = 0;
  #credits = 1;
  #rejections = 0;
  #workerId = "";
  #resumeKey = "";
  #instanceId = "";
  #leaving: Leaving | undefined;

  constructor(settings: Settings, registrations: readonly Registration[], chance: Chance) {
    this.#settings = settings;
    this.#route = new Route(settings.servers, settings.trusted, chance);
    const emit = (effect: Effect) => void this.#out.push(effect);
    this.#jobs = new Jobs(registrations, this.#send.bind(this), this.#note.bind(this));
    this.#inFlight = new InFlight(settings.slots, emit);
    this.#callbacks = new Callbacks(settings.slots, emit, (done) => {
      if (this.#link !== "live") return false;
      this.#send({ case: "callbackDone", value: done });
      return true;
    });
  }

  // ---- what a driver needs

  /**
   * An acknowledgement that waited in the socket still proves a lease: it is handled before the timers. Everything else
   * is handled after them, so that nothing starts under a lease that has just ended.
   */
  handle(now: Now, event: Event): Effect[] {
    if (!this.#alive()) return [];
    const provesLease = event.type === "received" && event.frame.frame.case === "heartbeatAck";
    if (provesLease) this.#apply(now, event);
    this.#expire(now);
    if (!provesLease && this.#alive()) this.#apply(now, event);
    if (this.#alive()) this.#settle(now);
    const effects = this.#out;
    this.#out = [];
    return effects;
  }

  /** When to call with a tick, on the boot clock. */
  deadline(): number {
    let next = Infinity;
    for (const timer of this.#timers()) next = Math.min(next, timer);
    return next;
  }

  /** For the last check before user code, on the thread that calls it. */
  get leaseStopsAt(): number {
    return this.#lease.stopsAt;
  }

  /** The attached stream; 0: none. For the same check. */
  get liveStream(): number {
    return this.#link === "live" ? this.#stream : 0;
  }

  get isLeaving(): boolean {
    return this.#leaving !== undefined;
  }

  /** How many reports are under way, for tests. */
  get reportsUnderWay(): number {
    return this.#inFlight.underWay;
  }

  /** Whether a run is in flight that need not stop, for tests. */
  get hasUnstopped(): boolean {
    return this.#inFlight.hasUnstopped();
  }

  // ---- events

  #apply(now: Now, event: Event): void {
    switch (event.type) {
      case "start":
        return this.#open(now);
      case "tick":
        return;
      case "opened":
        if (event.stream === this.#stream && this.#link === "opening") this.#greet(now);
        return;
      case "lost":
        if (event.stream === this.#stream && this.#link !== "down") this.#lost(now, event.code, event.detail);
        return;
      case "received":
        // Ignore frames of an abandoned stream.
        if (event.stream === this.#stream) this.#received(now, event.frame);
        return;
      case "began":
        return this.#inFlight.began(now, event.key);
      case "ended":
        return this.#inFlight.ended(now, event.key, event.ending);
      case "expired":
        // Even if an acknowledgement has arrived meanwhile: user code stops, so its run must not count as done.
        return this.#inFlight.cancel(now, event.key, StopReason.LEASE);
      case "progressed":
        return this.#inFlight.progressed(event);
      case "callbackEnded":
        return this.#callbacks.ended(event.id, event.error);
      case "leave":
        if (event.signalled === true) this.#note(...waitsFor(this.#inFlight.working(), this.#settings.drainTimeoutMs));
        return this.#leave(now, event.grace, "the worker was asked to stop");
      case "quit":
        this.#inFlight.stopAll(now, StopReason.DRAIN);
        return this.#finish("left at once, without a goodbye");
    }
  }

  #received(now: Now, { frame }: SessionResponse): void {
    if (this.#link !== "greeting" && this.#link !== "live") return;
    this.#lastFrame = now.boot;
    if (this.#link === "greeting") {
      if (frame.case === "welcome") this.#welcomed(now, frame.value);
      return;
    }
    switch (frame.case) {
      case "heartbeatAck":
        return this.#acknowledged(now, frame.value.sequence);
      case "trigger":
        return this.#trigger(now, frame.value);
      case "cancel":
        if (frame.value.run !== undefined) {
          this.#inFlight.cancel(now, keyOf(frame.value.run), stopOf(frame.value.reason));
        }
        return;
      case "reportAck":
        return this.#inFlight.acknowledged(frame.value);
      case "registered":
        if (this.#jobs.registered(frame.value)) this.#lease.agreed(frame.value);
        return;
      case "refused":
        this.#jobs.refused(now.boot, frame.value);
        return this.#leaveWithoutJobs(now);
      case "assignment":
        return this.#jobs.assigned(frame.value);
      case "callback":
        return this.#callback(now, frame.value);
      case "drain": {
        const { grace, message } = frame.value;
        return this.#leave(now, grace && millis(grace), `the coordinator asks to leave: ${message}`);
      }
      case "draining":
        this.#leaving?.drainingCame();
        return;
      case "goodbyeAck":
        if (this.#leaving?.goodbyeAt !== undefined) this.#finish("");
        return;
      case "shutdown":
        return this.#shutdown(now, frame.value);
      default:
      // Ignore unknown frames, and a second Welcome.
    }
  }

  // ---- streams

  #open(now: Now): void {
    this.#stream += 1;
    this.#server = this.#route.take();
    this.#link = "opening";
    this.#linkBy = now.boot + this.#settings.connectTimeoutMs;
    this.#out.push({ type: "open", stream: this.#stream, address: this.#server });
  }

  #greet(now: Now): void {
    this.#link = "greeting";
    this.#linkBy = now.boot + WELCOME_TIMEOUT;
    this.#helloSent = now.boot;
    this.#lease.beginStream();
    this.#delay.forget();
    const { namespace, address, labels, slots } = this.#settings;
    const hello = create(HelloSchema, {
      namespace,
      workerId: this.#workerId,
      resumeKey: this.#resumeKey,
      streamNumber: BigInt(this.#stream),
      address,
      labels: { ...labels },
      slots,
      runsInFlight: this.#inFlight.refs(),
      client: `rosterd-typescript/${VERSION}`,
      sentAt: stamp(now.wall),
      jobs: this.#jobs.agreed(),
      jobsAsked: this.#workerId === "" ? [] : this.#jobs.onlyAsked(),
      holdsTriggers: true,
    });
    this.#send({ case: "hello", value: hello });
  }

  #welcomed(now: Now, welcome: Welcome): void {
    const same = this.#workerId === "" || this.#workerId === welcome.workerId;
    if (!same) {
      this.#note("warn", `${this.#workerId} had been marked dead: going on as ${welcome.workerId}`);
      this.#inFlight.disown(now);
    }
    this.#workerId = welcome.workerId;
    this.#resumeKey = welcome.resumeKey;
    this.#instanceId = welcome.instanceId;
    this.#credits = Math.max(1, welcome.maxUnacknowledgedReports);
    this.#rejections = 0;
    this.#lease.welcomed(this.#helloSent, welcome, same);
    for (const address of this.#route.learn(welcome.coordinators)) {
      this.#note(
        "warn",
        `coordinator ${address}, which only a Welcome named, is not used: name it (ROSTERD_SERVER), or the ` +
          "authorities that vouch for it (ROSTERD_CA)",
      );
    }
    this.#link = "live";
    this.#linkBy = Infinity;
    this.#inFlight.sayOffsetsAgain();
    this.#callbacks.sayUnsent();
    this.#lastHeartbeat = this.#helloSent;
    this.#lastRenewed = now.boot;
    this.#note("info", `connected to ${this.#server} as ${welcome.instanceId}`);
    this.#out.push({ type: "attached", server: this.#server, instanceId: welcome.instanceId });
    if (this.#leaving === undefined) this.#jobs.registerAll();
    else this.#leaving.newStream();
  }

  #lost(now: Now, code: string, detail: string): void {
    const reason = code === "" ? detail : `${code}: ${detail}`;
    this.#out.push({ type: "close", stream: this.#stream });
    const failed = this.#link === "live" ? "disconnected from" : "cannot connect to";
    if (this.#link === "live") this.#out.push({ type: "detached", server: this.#server, reason });
    this.#inFlight.dropUnstarted();
    if (this.#workerId === "") {
      // In a row: a coordinator that is only unreachable may be one that accepts this worker.
      this.#rejections = FINAL.has(code) ? this.#rejections + 1 : 0;
      if (this.#rejections >= this.#route.addresses.length) {
        this.#link = "down";
        this.#leaving = new Leaving(now.boot, { kind: "rejected", code, detail });
        this.#finish("");
        return;
      }
    }
    const longest = this.#leaving === undefined ? this.#settings.longestDelayMs : LONGEST_DELAY_LEAVING;
    const delay = this.#route.lost(longest);
    this.#link = "down";
    this.#linkBy = now.boot + delay;
    const level = FINAL.has(code) ? "error" : "warn";
    const pause = (delay / 1e3).toFixed(1);
    this.#note(level, `${failed} ${this.#server}: ${reason}; retrying in ${pause}s`);
    if (delay === 0) this.#open(now);
  }

  #acknowledged(now: Now, sequence: bigint): void {
    const sent = this.#lease.acknowledged(sequence);
    if (sent === undefined) return;
    this.#route.good();
    this.#lastRenewed = now.boot;
    this.#out.push({ type: "renewed", roundTrip: now.boot - sent });
  }

  // ---- jobs, runs and callbacks

  #shutdown(now: Now, shutdown: Shutdown): void {
    if (shutdown.job === "") {
      this.#leave(now, undefined, `an operator shut this worker down: ${shutdown.message}`);
    } else {
      this.#jobs.shutDown(shutdown.job, shutdown.message);
      this.#leaveWithoutJobs(now);
    }
  }

  #leaveWithoutJobs(now: Now): void {
    if (this.#jobs.noneLeft()) this.#leave(now, undefined, "no job is left", this.#jobs.defeat());
  }

  #trigger(now: Now, trigger: Trigger): void {
    if (trigger.run === undefined) return;
    const fire = trigger.fireTime === undefined ? undefined : instant(trigger.fireTime);
    const startsIn = millis(trigger.startsIn);
    this.#inFlight.take(now, {
      trigger,
      ref: trigger.run,
      stream: this.#stream,
      instanceId: this.#instanceId,
      props: this.#jobs.props(trigger.run.job),
      startsIn: startsIn > 0 ? this.#delay.remainingWait(now.boot, fire, startsIn) : 0,
      objection: this.#objection(now, trigger.run.job),
    });
  }

  /** Reasons not to start a run, except those in inflight.ts. */
  #objection(now: Now, job: string): string {
    if (!this.#lease.valid(now.boot)) return "the lease has ended";
    if (!this.#jobs.serves(job)) return "this worker is not registered for the job";
    if (this.#leaving !== undefined && now.boot >= this.#leaving.drainBy) return "the worker is leaving";
    // The coordinator hands back the runs that the records still assign to it: they may start elsewhere at any moment.
    return this.#leaving?.goodbyeAt === undefined ? "" : "the worker has said goodbye";
  }

  #callback(now: Now, callback: Callback): void {
    this.#callbacks.asked(now.boot, callback);
  }

  // ---- leaving

  #leave(now: Now, grace: number | undefined, why: string, defeat?: Defeat): void {
    const drainBy = now.boot + (grace ?? this.#settings.drainTimeoutMs);
    if (this.#leaving !== undefined) {
      this.#leaving.sooner(drainBy);
      return;
    }
    this.#note("info", `leaving: ${why}`);
    this.#leaving = new Leaving(drainBy, defeat);
    this.#jobs.offerNoMore();
    this.#out.push({ type: "leaving" });
  }

  #nothingInFlight(): boolean {
    return this.#inFlight.empty() && !this.#callbacks.any;
  }

  /** When to try another coordinator. */
  #farewellBy(leaving: Leaving): number {
    return this.#link === "live" ? leaving.farewellBy() : Infinity;
  }

  #finish(trouble: string): void {
    if (trouble !== "") this.#note("warn", trouble);
    if (this.#link !== "down") this.#out.push({ type: "close", stream: this.#stream });
    this.#link = "over";
    this.#out.push({ type: "finish", defeat: this.#leaving?.defeat });
  }

  // ---- time

  *#timers(): Generator<number> {
    if (!this.#alive()) return;
    yield this.#linkBy;
    yield* this.#inFlight.timers(this.#link === "live");
    yield this.#callbacks.deadline();
    const unstopped = this.#inFlight.hasUnstopped();
    if (unstopped) yield this.#lease.stopsAt;
    if (this.#link === "live") {
      yield this.#deadAt();
      yield this.#lastHeartbeat + this.#lease.interval;
      yield this.#jobs.nextOffer();
    }
    if (this.#leaving === undefined) return;
    if (unstopped || this.#callbacks.any) yield this.#leaving.drainBy;
    yield this.#leaving.limit(this.#settings.leaveTimeoutMs);
    yield this.#farewellBy(this.#leaving);
  }

  #expire(now: Now): void {
    if (!this.#lease.valid(now.boot)) this.#inFlight.stopAll(now, StopReason.LEASE);
    this.#inFlight.expire(now, this.#lease.valid(now.boot));
    this.#callbacks.expire(now.boot);
    if (this.#leaving !== undefined) this.#expireLeaving(now, this.#leaving);
    if (this.#link === "down" && now.boot >= this.#linkBy) {
      this.#open(now);
    } else if ((this.#link === "opening" || this.#link === "greeting") && now.boot >= this.#linkBy) {
      this.#lost(now, "", "no answer in time");
    } else if (this.#link === "live" && now.boot >= this.#deadAt()) {
      this.#lost(now, "", "silent for too long");
    } else if (this.#link === "live") {
      if (now.boot >= this.#lastHeartbeat + this.#lease.interval) this.#heartbeat(now);
      this.#jobs.offerAgain(now.boot);
    }
  }

  #expireLeaving(now: Now, leaving: Leaving): void {
    if (now.boot >= leaving.drainBy) {
      this.#inFlight.stopAll(now, StopReason.DRAIN);
      this.#callbacks.abandon();
    }
    if (now.boot >= leaving.limit(this.#settings.leaveTimeoutMs)) {
      leaving.defeat ??= { kind: "leave timed out", inFlight: this.#inFlight.refs().length };
      this.#finish("left without a goodbye: its time was over");
    } else if (now.boot >= this.#farewellBy(leaving)) {
      this.#lost(now, "", "no answer to the goodbye");
    }
  }

  /** When the stream counts as dead: no frame arrives, or none renews the lease before its end. */
  #deadAt(): number {
    const patience = this.#lease.patience;
    return Math.min(this.#lastFrame + patience, Math.max(this.#lease.stopsAt, this.#lastRenewed + patience));
  }

  #heartbeat(now: Now): void {
    this.#lastHeartbeat = now.boot;
    const beat = create(HeartbeatSchema, {
      sequence: this.#lease.heartbeat(now.boot),
      runsInFlight: this.#inFlight.refs(),
      lease: span(this.#lease.length),
    });
    this.#send({ case: "heartbeat", value: beat });
  }

  // ---- after every event

  /** Sends what the coordinator does not know yet: level-triggered, so nothing depends on the event. */
  #settle(now: Now): void {
    if (this.#link === "live") {
      for (const value of this.#inFlight.dueStarted()) this.#send({ case: "runStarted", value });
      for (const value of this.#inFlight.dueProgress(now)) this.#send({ case: "runProgress", value });
      for (const value of this.#inFlight.dueReports(this.#stream, this.#credits)) {
        this.#send({ case: "runCompleted", value });
      }
    }
    if (this.#leaving !== undefined) this.#settleLeaving(now, this.#leaving);
  }

  #settleLeaving(now: Now, leaving: Leaving): void {
    leaving.rest(now.boot, this.#nothingInFlight());
    if (this.#workerId === "" && (this.#link === "down" || this.#link === "opening")) {
      // Never attached: there is no coordinator to say goodbye to.
      this.#finish("");
      return;
    }
    if (this.#link !== "live") return;
    if (leaving.ask(now.boot)) this.#send({ case: "drainRequest", value: create(DrainRequestSchema) });
    if (this.#nothingInFlight() && leaving.sayGoodbye(now.boot)) {
      this.#send({ case: "goodbye", value: create(GoodbyeSchema) });
    }
  }

  // ---- effects

  #alive(): boolean {
    return this.#link !== "over";
  }

  #send(frame: Frame): void {
    this.#out.push({ type: "send", stream: this.#stream, frame });
  }

  #note(level: Level, text: string): void {
    this.#out.push({ type: "note", level, text });
  }
}

function stopOf(reason: CancelReason): StopReason {
  if (reason === CancelReason.FENCED) return StopReason.FENCED;
  return reason === CancelReason.TIMED_OUT ? StopReason.TIMED_OUT : StopReason.OPERATOR;
}
