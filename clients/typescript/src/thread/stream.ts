/** One stream to one coordinator over gRPC. Knows frames only as messages, not their meaning. */

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, connectivityState, credentials, Metadata, status, type ChannelOptions } from "@grpc/grpc-js";
import type { ChannelCredentials, ClientDuplexStream, StatusObject } from "@grpc/grpc-js";
import type { Event, Frame } from "../machine/events.js";
import { secure } from "../machine/hosts.js";
import { certificates, exposed, exposesCredential, loopback, type Access } from "../options.js";
import {
  SessionRequestSchema,
  SessionResponseSchema,
  type SessionRequest,
  type SessionResponse,
} from "../proto/rosterd/v1/worker_pb.js";
import { VERSION } from "../version.js";
import { explained, plain, targetOf } from "./target.js";

const METHOD = "/rosterd.v1.WorkerService/Session";
/**
 * Frames that wait to be written; the machine's credits and rates keep it far below. If it is full, the worker abandons
 * the stream.
 */
const MAX_WAITING = 16 * 1024;
const CLOSE_TIMEOUT = 1_000;
const MAX_MESSAGE = 4 * 1024 * 1024;

const CHANNEL: ChannelOptions = {
  "grpc.keepalive_time_ms": 20_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.max_receive_message_length": MAX_MESSAGE,
  "grpc.max_send_message_length": MAX_MESSAGE,
  "grpc.enable_retries": 0,
  // A new stream is a new connection, whatever happened to the old one.
  "grpc.use_local_subchannel_pool": 1,
  "grpc.primary_user_agent": `rosterd-typescript/${VERSION}`,
};

type Call = ClientDuplexStream<SessionRequest, SessionResponse>;

export class Stream {
  readonly #number: number;
  readonly #address: string;
  readonly #access: Access;
  readonly #feed: (event: Event) => void;
  #client: Client | undefined;
  #call: Call | undefined;
  #closed = false;
  #lost = false;
  #waiting = 0;
  #ended: (() => void) | undefined;
  readonly #end = new Promise<void>((resolve) => (this.#ended = resolve));

  constructor(number: number, address: string, access: Access, feed: (event: Event) => void) {
    this.#number = number;
    this.#address = address;
    this.#access = access;
    this.#feed = feed;
  }

  /** Connects once `after`, the closing of the stream before, is done. */
  async open(after: Promise<void>): Promise<void> {
    await after;
    if (this.#closed) return;
    try {
      this.#client = new Client(targetOf(this.#address), this.#credentials(), {
        ...CHANNEL,
        // Connections to this machine do not use a proxy from the environment.
        ...(loopback(this.#address) ? { "grpc.enable_http_proxy": 0 } : {}),
      });
      this.#connect(this.#client);
    } catch (error) {
      this.#tellLost("", error instanceof Error ? error.message : String(error));
    }
  }

  /** False: the coordinator has not read for so long that the stream is useless. */
  send(frame: Frame): boolean {
    if (this.#call === undefined || this.#closed || this.#lost) return true;
    if (this.#waiting >= MAX_WAITING) return false;
    this.#waiting += 1;
    this.#call.write(create(SessionRequestSchema, { frame }), () => {
      this.#waiting -= 1;
    });
    return true;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#call !== undefined && !this.#lost) {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, CLOSE_TIMEOUT)));
      this.#call.cancel();
      await Promise.race([this.#end, late]);
      clearTimeout(timer);
    }
    this.#client?.close();
  }

  #connect(client: Client): void {
    if (this.#closed) return;
    const channel = client.getChannel();
    const state = channel.getConnectivityState(true);
    if (state === connectivityState.READY) {
      this.#converse(client);
      this.#feed({ type: "opened", stream: this.#number });
    } else if (state === connectivityState.TRANSIENT_FAILURE) {
      // The call fails at once, and its status says why there is no connection.
      this.#converse(client);
    } else {
      channel.watchConnectivityState(state, Infinity, () => {
        this.#connect(client);
      });
    }
  }

  #converse(client: Client): void {
    const metadata = new Metadata();
    if (this.#access.credential !== undefined) metadata.set("authorization", `Bearer ${this.#access.credential}`);
    const call: Call = client.makeBidiStreamRequest(METHOD, encode, decode, metadata);
    this.#call = call;
    call.on("data", (frame: SessionResponse) => {
      if (!this.#closed) this.#feed({ type: "received", stream: this.#number, frame });
    });
    // The status reports the same; without a listener an error would end the process.
    call.on("error", () => undefined);
    call.on("status", ({ code, details }: StatusObject) => {
      this.#ended?.();
      const text = details === "" || details === "OK" ? "the coordinator ended the stream" : plain(details);
      this.#tellLost(code === status.OK ? "" : status[code], text);
    });
  }

  #tellLost(code: string, detail: string): void {
    if (this.#lost) return;
    this.#lost = true;
    if (this.#closed) return;
    const told = secure(this.#address)
      ? explained(code, detail.includes("https://") ? detail : `${this.#address}: ${detail}`)
      : { code, detail };
    this.#feed({ type: "lost", stream: this.#number, ...told });
  }

  #credentials(): ChannelCredentials {
    // A coordinator may name others: the credential goes to none of them in the clear.
    if (exposesCredential(this.#access, this.#address)) throw new Error(exposed(this.#address));
    if (!secure(this.#address)) return credentials.createInsecure();
    const { rootCertificates, clientKey, clientCertificate } = certificates(this.#access);
    return credentials.createSsl(pem(rootCertificates), pem(clientKey), pem(clientCertificate));
  }
}

function pem(text: Uint8Array | undefined): Buffer | null {
  return text === undefined ? null : Buffer.from(text);
}

function encode(frame: SessionRequest): Buffer {
  return Buffer.from(toBinary(SessionRequestSchema, frame));
}

function decode(data: Buffer): SessionResponse {
  // Unknown fields are not kept.
  return fromBinary(SessionResponseSchema, data, { readUnknownFields: false });
}
