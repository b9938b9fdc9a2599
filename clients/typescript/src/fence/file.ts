/**
 * Files: each run writes its own name, which ends in its token; readers use the highest token. A run that resumes after
 * another has taken its place can only create a name that is no longer read. No lock is needed, so a process that dies
 * leaves none behind, and a sleeping one does not appear to hold one.
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
    // A newer run may have written meanwhile: then readers ignore ours.
    await this.#judge(run);
    for (const token of await this.#tokens()) if (token < run.token) await rm(this.#name(token), { force: true });
  }

  /** The path of the current content; undefined: none was written. A newer write may remove it. */
  async current(): Promise<string | undefined> {
    const token = (await this.#tokens()).at(-1);
    return token === undefined ? undefined : this.#name(token);
  }

  /** The current content; undefined: none was written. */
  async read(): Promise<Buffer | undefined> {
    for (;;) {
      const path = await this.current();
      if (path === undefined) return undefined;
      try {
        return await readFile(path);
      } catch (error) {
        // It was replaced between the two steps: there is a newer one.
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
  // Windows cannot sync a folder, and writes a rename through by itself.
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
