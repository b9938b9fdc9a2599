/** The messages between the thread of the stream and the one of user code. */

import type { SharedParts } from "../clock.js";
import type { Level, UserEvent } from "../machine/events.js";
import type { Defeat, Key, Registration, Settings, StopReason } from "../machine/types.js";
import type { Access } from "../options.js";
import type { Callback } from "../proto/rosterd/v1/worker_pb.js";
import type { Call } from "../runner.js";

/** The start data of the thread. */
export interface Orders {
  readonly settings: Settings;
  readonly access: Access;
  readonly registrations: readonly Registration[];
  readonly shared: SharedParts;
  readonly health: { readonly port: number; readonly host: string } | undefined;
  /** Whether the program has hooks for streams and renewals. */
  readonly metrics: boolean;
}

/** To the thread of the stream. */
export type Order = UserEvent;

/** To the thread of user code. */
export type News =
  | ({ readonly type: "start" } & Call)
  | { readonly type: "stop"; readonly key: Key; readonly reason: StopReason }
  | { readonly type: "callback"; readonly callback: Callback }
  /** The last message. */
  | { readonly type: "over"; readonly defeat: Defeat | undefined }
  | Line;

/** Messages that may be dropped. */
export type Line =
  | { readonly type: "note"; readonly level: Level; readonly text: string }
  | { readonly type: "attached"; readonly server: string; readonly instanceId: string }
  | { readonly type: "detached"; readonly server: string; readonly reason: string }
  | { readonly type: "renewed"; readonly roundTrip: number }
  | { readonly type: "healthAt"; readonly port: number };
