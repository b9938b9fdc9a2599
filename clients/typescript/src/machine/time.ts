/** Times of the protocol in milliseconds, and back. */

import { create } from "@bufbuild/protobuf";
import { DurationSchema, TimestampSchema, type Duration, type Timestamp } from "@bufbuild/protobuf/wkt";

/** 0 if there is none. */
export function millis(duration: Duration | undefined): number {
  return duration === undefined ? 0 : Number(duration.seconds) * 1e3 + duration.nanos / 1e6;
}

export function span(length: number): Duration {
  const nanos = Math.round(length * 1e6);
  return create(DurationSchema, { seconds: BigInt(Math.floor(nanos / 1e9)), nanos: nanos % 1e9 });
}

/** Milliseconds since 1970. */
export function instant(timestamp: Timestamp | undefined): number {
  return timestamp === undefined ? 0 : Number(timestamp.seconds) * 1e3 + timestamp.nanos / 1e6;
}

export function stamp(wall: number): Timestamp {
  const seconds = Math.floor(wall / 1e3);
  const nanos = Math.min(999_999_999, Math.round((wall - seconds * 1e3) * 1e6));
  return create(TimestampSchema, { seconds: BigInt(seconds), nanos });
}
