/** A bucket of a real server, with Amazon's own client, as in a program that uses the fence. */

import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import type { ObjectHead, ObjectStore } from "../../src/fence/index.js";

const NAME = "reports";

export class Bucket implements ObjectStore {
  readonly #client: S3Client;
  /** Runs right before the next put, once. */
  between: (() => Promise<unknown>) | undefined;
  puts = 0;

  constructor(port: number) {
    this.#client = new S3Client({
      endpoint: `http://127.0.0.1:${port}`,
      region: "us-east-1",
      forcePathStyle: true,
      credentials: { accessKeyId: "tests", secretAccessKey: "tests" },
    });
  }

  /** Whether the server answers by now. */
  async create(): Promise<boolean> {
    try {
      await this.#client.send(new CreateBucketCommand({ Bucket: NAME }));
      return true;
    } catch (error) {
      if (error instanceof S3ServiceException) throw error;
      return false;
    }
  }

  async head(key: string): Promise<ObjectHead | undefined> {
    try {
      const { ETag = "", Metadata } = await this.#client.send(new HeadObjectCommand({ Bucket: NAME, Key: key }));
      return { etag: ETag, token: Metadata?.["rosterd-token"] };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  async put(...[key, body, { ifMatch, metadata }]: Parameters<ObjectStore["put"]>): Promise<boolean> {
    const { between } = this;
    this.between = undefined;
    await between?.();
    this.puts += 1;
    const condition = ifMatch === undefined ? { IfNoneMatch: "*" } : { IfMatch: ifMatch };
    try {
      const place = { Bucket: NAME, Key: key };
      await this.#client.send(new PutObjectCommand({ ...place, Body: body, Metadata: { ...metadata }, ...condition }));
      return true;
    } catch (error) {
      // The condition failed; a concurrent write; the object to match is gone.
      if ([412, 409, 404].includes(statusOf(error))) return false;
      throw error;
    }
  }

  async read(key: string): Promise<string | undefined> {
    const { Body } = await this.#client.send(new GetObjectCommand({ Bucket: NAME, Key: key }));
    return Body?.transformToString();
  }

  delete(key: string): Promise<unknown> {
    return this.#client.send(new DeleteObjectCommand({ Bucket: NAME, Key: key }));
  }

  close(): void {
    this.#client.destroy();
  }
}

function statusOf(error: unknown): number {
  return error instanceof S3ServiceException ? (error.$metadata.httpStatusCode ?? 0) : 0;
}
