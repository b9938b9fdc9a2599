/**
 * S3 and compatible stores: an object carries the token of the run that wrote it as metadata, and is put only if it has
 * not changed since the fence read it (`If-Match`, `If-None-Match`).
 *
 * An ETag is made from the body: two runs that write the very same bytes make one ETag, and the fence does not detect a
 * late run between them. So make the body of each run different, for example by a field with its token.
 */

import { Fenced, type Guarded } from "./fenced.js";

/** The metadata of an existing object. */
export interface ObjectHead {
  readonly etag: string;
  /** The metadata `rosterd-token`; undefined: it was not written by a fence. */
  readonly token: string | undefined;
}

/** The two requests of the program's own client that a fence needs. */
export interface ObjectStore {
  /** HeadObject; undefined: there is no object. */
  head(key: string): Promise<ObjectHead | undefined>;
  /**
   * PutObject with `metadata`, and with `If-Match: ifMatch`, or `If-None-Match: *` if that is undefined. False: the
   * condition did not hold (412, 409 for a conflict, or 404 if the object with the ETag is gone).
   */
  put(
    key: string,
    body: Uint8Array | string,
    condition: { readonly ifMatch: string | undefined; readonly metadata: Readonly<Record<string, string>> },
  ): Promise<boolean>;
}

const ATTEMPTS = 10;

/** One object that runs of an item write. */
export class FencedObject {
  readonly #store: ObjectStore;
  readonly #key: string;

  constructor(store: ObjectStore, key: string) {
    this.#store = store;
    this.#key = key;
  }

  /** Throws {@link Fenced} if a run with a higher token has written the object. */
  async put(body: Uint8Array | string, run: Guarded): Promise<void> {
    const what = `object ${this.#key}`;
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const head = await this.#store.head(this.#key);
      const seen = head?.token === undefined ? undefined : BigInt(head.token);
      if (seen !== undefined && seen > run.token) throw new Fenced(what, run.token, seen);
      const metadata = { "rosterd-token": String(run.token) };
      if (await this.#store.put(this.#key, body, { ifMatch: head?.etag, metadata })) return;
      // Another writer was quicker: its token decides.
    }
    throw new Error(`${what}: it changed ${ATTEMPTS} times while it was to be written: is it written without fences?`);
  }
}
