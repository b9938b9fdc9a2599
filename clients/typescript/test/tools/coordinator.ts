/**
 * A scripted coordinator: a real gRPC server on loopback whose every frame a test writes. It acknowledges heartbeats by
 * itself while `answerHeartbeats` is set; everything else waits for the test.
 */

import assert from "node:assert/strict";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  Server,
  ServerCredentials,
  status,
  type ServerDuplexStream,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import {
  SessionRequestSchema,
  SessionResponseSchema,
  type Hello,
  type SessionRequest,
  type SessionResponse,
} from "../../src/proto/rosterd/v1/worker_pb.js";
import type { Frame } from "../../src/machine/events.js";
import * as f from "./frames.js";

export const PATIENCE = 20_000;

type Kind = NonNullable<Frame["case"]>;
type ValueOf<K extends Kind> = Extract<Frame, { case: K }>["value"];
const QUIET: readonly Kind[] = ["heartbeat", "runStarted", "runProgress"];

/** The incoming frames, in order, and the waiters. */
class Inbox<T> {
  readonly #come: T[] = [];
  #waiting: ((value: T) => void) | undefined;

  put(value: T): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting === undefined) this.#come.push(value);
    else waiting(value);
  }

  take(what: string, until = Date.now() + PATIENCE): Promise<T> {
    const next = this.#come.shift();
    if (next !== undefined) return Promise.resolve(next);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => {
          this.#waiting = undefined;
          reject(new Error(`${what} does not come`));
        },
        Math.max(1, until - Date.now()),
      );
      this.#waiting = (value) => {
        clearTimeout(timer);
        resolve(value);
      };
    });
  }
}

/** One stream of a worker. */
export class Session {
  readonly metadata: Record<string, unknown>;
  readonly closed: Promise<void>;
  readonly #call: ServerDuplexStream<SessionRequest, SessionResponse>;
  readonly #arrived = new Inbox<SessionRequest | "the end">();

  constructor(coordinator: Coordinator, call: ServerDuplexStream<SessionRequest, SessionResponse>) {
    this.#call = call;
    this.metadata = call.metadata.getMap();
    call.on("data", (frame: SessionRequest) => {
      if (frame.frame.case === "heartbeat" && coordinator.answerHeartbeats) {
        this.send(f.heartbeatAck(frame.frame.value.sequence));
      }
      this.#arrived.put(frame);
    });
    this.closed = new Promise((resolve) => {
      const over = () => {
        this.#arrived.put("the end");
        resolve();
      };
      call.once("cancelled", over);
      call.once("end", over);
      call.on("error", () => undefined);
    });
  }

  send(...frames: SessionResponse[]): void {
    for (const frame of frames) this.#call.write(frame);
  }

  /** Ends the stream from this side. */
  end(code: status = status.OK): void {
    if (code === status.OK) this.#call.end();
    else this.#call.emit("error", { code, details: "as the script says" });
  }

  /** The next frame, which must be of this kind; the kinds in `skip` are skipped. */
  async expect<K extends Kind>(kind: K, skip: readonly Kind[] = QUIET): Promise<ValueOf<K>> {
    const until = Date.now() + PATIENCE;
    for (;;) {
      const arrived = await this.#arrived.take(kind, until);
      const frame = arrived === "the end" ? undefined : arrived.frame;
      if (frame?.case === kind) return frame.value as ValueOf<K>;
      const passed = frame?.case !== undefined && skip.includes(frame.case);
      assert.ok(passed, `wanted ${kind}, got ${frame?.case ?? "the end"}`);
    }
  }

  async expectHeartbeatWith(...tokens: number[]): Promise<void> {
    for (;;) {
      const beat = await this.expect("heartbeat");
      const inFlight = beat.runsInFlight.map((run) => Number(run.token));
      if (JSON.stringify(inFlight.sort()) === JSON.stringify(tokens.sort())) return;
    }
  }

  async greet(workerId = "w1", parts: f.WelcomeParts & { job?: string } = {}): Promise<Hello> {
    const hello = await this.expect("hello");
    this.send(f.welcome(workerId, parts));
    const register = await this.expect("register");
    assert.equal(register.job, parts.job ?? "hello");
    this.send(f.registered(register.job));
    return hello;
  }

  /** A leave with nothing left in flight. */
  async farewell(): Promise<void> {
    await this.expect("drainRequest");
    this.send(f.draining());
    await this.expect("goodbye");
    this.send(f.goodbyeAck());
  }
}

const DEFINITION = {
  Session: {
    path: "/rosterd.v1.WorkerService/Session",
    requestStream: true,
    responseStream: true,
    requestSerialize: (frame: SessionRequest) => Buffer.from(toBinary(SessionRequestSchema, frame)),
    requestDeserialize: (data: Buffer) => fromBinary(SessionRequestSchema, data),
    responseSerialize: (frame: SessionResponse) => Buffer.from(toBinary(SessionResponseSchema, frame)),
    responseDeserialize: (data: Buffer) => fromBinary(SessionResponseSchema, data),
  },
} as const;

export class Coordinator {
  answerHeartbeats = true;
  port = 0;
  openSessions = 0;
  mostOpenSessions = 0;
  readonly #server = new Server();
  readonly #sessions = new Inbox<Session>();

  private constructor() {
    const implementation: UntypedServiceImplementation = {
      Session: (call: ServerDuplexStream<SessionRequest, SessionResponse>) => {
        this.#opened(call);
      },
    };
    this.#server.addService(DEFINITION, implementation);
  }

  static async start(port = 0, credentials = ServerCredentials.createInsecure()): Promise<Coordinator> {
    const coordinator = new Coordinator();
    coordinator.port = await new Promise((resolve, reject) => {
      coordinator.#server.bindAsync(`127.0.0.1:${port}`, credentials, (error, bound) => {
        if (error === null) resolve(bound);
        else reject(error);
      });
    });
    return coordinator;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  accept(): Promise<Session> {
    return this.#sessions.take("a stream");
  }

  stop(): void {
    this.#server.forceShutdown();
  }

  #opened(call: ServerDuplexStream<SessionRequest, SessionResponse>): void {
    const session = new Session(this, call);
    this.openSessions += 1;
    this.mostOpenSessions = Math.max(this.mostOpenSessions, this.openSessions);
    void session.closed.then(() => (this.openSessions -= 1));
    this.#sessions.put(session);
  }
}
