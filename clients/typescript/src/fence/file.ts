/**
 * Files: each run writes a name of its own, which ends in its token, and the highest token is the file. A run that wakes
 * after another has taken its place can only make a name that nobody reads any more. No lock is needed, so none is left
 * behind by a process that dies, or is believed to be held by one that sleeps.
 */

import { open, readdir, readFile, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Fenced, type Guarded } from "./fenced.js";

/** 63 bits have 19 digits: names of one length sort as their tokens do. */
const DIGITS = 19;

/** One file that runs of an item write as a whole: `PATH.0000000000000000005` and so on. */
export class FencedFile {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Throws {@link Fenced} if a run with a higher token has written the file. Older content is removed. Readers see the
   * old content or the new.
   */
  async write(content: Uint8Array | string, run: Guarded): Promise<void> {
    await this.#judge(run);
    const own = this.#name(run.token);
    const unfinished = `${own}.new`;
    try {
      await writeDurably(unfinished, content);
      await rename(unfinished, own);
    } finally {
      await rm(unfinished, { force: true });
    }
    await synced(dirname(this.#path));
    // A newer run may have come meanwhile: nobody reads ours then.
    await this.#judge(run);
    for (const token of await this.#tokens()) if (token < run.token) await rm(this.#name(token), { force: true });
  }

  /** Where the content is that counts now; undefined: none was written. It may be removed by a newer write. */
  async current(): Promise<string | undefined> {
    const token = (await this.#tokens()).at(-1);
    return token === undefined ? undefined : this.#name(token);
  }

  /** The content that counts now; undefined: none was written. */
  async read(): Promise<Buffer | undefined> {
    for (;;) {
      const path = await this.current();
      if (path === undefined) return undefined;
      try {
        return await readFile(path);
      } catch (error) {
        // Replaced between the two: then there is a newer one.
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      }
    }
  }

  async #judge(run: Guarded): Promise<void> {
    const seen = (await this.#tokens()).at(-1);
    if (seen !== undefined && seen > run.token) throw new Fenced(`file ${this.#path}`, run.token, seen);
  }

  /** Ascending. */
  async #tokens(): Promise<bigint[]> {
    const prefix = `${basename(this.#path)}.`;
    const names = (await readdir(dirname(this.#path))).filter((name) => name.startsWith(prefix)).sort();
    const endings = names.map((name) => name.slice(prefix.length));
    return endings.filter((ending) => ending.length === DIGITS && /^\d+$/.test(ending)).map(BigInt);
  }

  #name(token: bigint): string {
    const name = `${basename(this.#path)}.${String(token).padStart(DIGITS, "0")}`;
    return join(dirname(this.#path), name);
  }
}

async function writeDurably(path: string, content: Uint8Array | string): Promise<void> {
  const handle = await open(path, "w");
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function synced(folder: string): Promise<void> {
  // There a folder cannot be synced, and a rename is written through by itself.
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
