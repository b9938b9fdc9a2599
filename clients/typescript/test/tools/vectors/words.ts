/** Frames from the words of vectors, and back. */

import { ScalarType, type DescEnum, type DescField, type DescMessage } from "@bufbuild/protobuf";
import { reflect, type ReflectMessage } from "@bufbuild/protobuf/reflect";
import type { Key } from "../../../src/machine/types.js";

/** The wall clock at time 0. */
export const WALL = Date.UTC(2026, 0, 1);

export type Tree = null | boolean | number | bigint | string | readonly Tree[] | { readonly [name: string]: Tree };
export type Fields = Readonly<Record<string, Tree>>;

// ---- words to frames

export function keyOf(said: Fields): Key {
  const [job = "", item = "", token = ""] = text(said.run ?? "").split("/");
  return { job, item: Number(item), token: BigInt(token) };
}

export function runText(run: { job: string; item: number; token: bigint }): string {
  return `${run.job}/${run.item}/${String(run.token)}`;
}

export function text(value: Tree): string {
  if (typeof value !== "object" || value === null) return String(value);
  const { repeat, times } = value as Fields;
  return typeof repeat === "string"
    ? repeat.repeat(Number(times))
    : JSON.stringify(value, (_, one: Tree) => (typeof one === "bigint" ? String(one) : one));
}

function prefix(type: DescEnum): string {
  return `${type.name.replace(/(?<!^)([A-Z])/g, "_$1").toUpperCase()}_`;
}

export function fill(message: ReflectMessage, fields: Fields): void {
  for (const [name, value] of Object.entries(fields)) {
    if (value === null) continue;
    const field = message.desc.fields.find((one) => one.name === name);
    if (field === undefined) throw new Error(`no field ${name} in ${message.desc.name}`);
    if (field.fieldKind === "map") {
      const map = message.get(field);
      for (const [key, one] of Object.entries(value)) map.set(key, one);
    } else if (field.fieldKind === "list") {
      const list = message.get(field);
      for (const one of value as readonly Tree[]) list.add(filled(field.message, one));
    } else if (field.fieldKind === "message") {
      message.set(field, filled(field.message, value));
    } else {
      message.set(field, scalar(field, value));
    }
  }
}

function scalar(field: DescField, value: Tree): unknown {
  if (field.fieldKind === "enum") {
    const wanted =
      typeof value === "string"
        ? field.enum.values.find((one) => one.name === prefix(field.enum) + value)?.number
        : value;
    if (wanted === undefined) throw new Error(`no value ${text(value)} of ${field.enum.name}`);
    return wanted;
  }
  if (field.scalar === ScalarType.BYTES) return Buffer.from(text(value));
  return field.scalar === ScalarType.UINT64 ? BigInt(value as number) : value;
}

function filled(type: DescMessage | undefined, value: Tree): unknown {
  if (type === undefined) return value;
  const message = reflect(type);
  switch (type.name) {
    case "RunRef": {
      const { job, item, token } = keyOf({ run: value });
      fill(message, { job, item, token });
      break;
    }
    case "Duration":
    case "Timestamp": {
      const millis = Number(value) + (type.name === "Timestamp" ? WALL : 0);
      const seconds = Math.floor(millis / 1e3);
      message.set(type.field.seconds!, BigInt(seconds));
      message.set(type.field.nanos!, (millis - seconds * 1e3) * 1e6);
      break;
    }
    default:
      fill(message, value as Fields);
  }
  return message;
}

// ---- frames to words

export function shown(message: ReflectMessage): Record<string, Tree> {
  return Object.fromEntries(message.desc.fields.map((field) => [field.name, shownField(message, field)]));
}

function shownField(message: ReflectMessage, field: DescField): Tree {
  switch (field.fieldKind) {
    case "map":
      return Object.fromEntries([...message.get(field)].map(([key, value]) => [String(key), value as Tree]));
    case "list":
      return [...message.get(field)].map((one) =>
        field.message === undefined ? (one as Tree) : shownMessage(one as ReflectMessage),
      );
    case "message":
      return message.isSet(field) ? shownMessage(message.get(field)) : null;
    case "enum": {
      const number = message.get(field);
      const name = field.enum.value[number]?.name;
      return name === undefined ? number : name.slice(prefix(field.enum).length);
    }
    case "scalar": {
      // A field without presence that is not set has the empty value.
      if (field.oneof !== undefined && !message.isSet(field)) return null;
      if (field.proto.proto3Optional && !message.isSet(field)) return null;
      const value = message.get(field);
      return value instanceof Uint8Array ? Buffer.from(value).toString() : value;
    }
  }
}

export class Millis {
  constructor(readonly value: number) {}
}

function shownMessage(message: ReflectMessage): Tree {
  const fields = shown(message);
  const millis = Number(fields.seconds) * 1e3 + Number(fields.nanos) / 1e6;
  switch (message.desc.name) {
    case "RunRef":
      return `${text(fields.job ?? "")}/${text(fields.item ?? 0)}/${text(fields.token ?? 0)}`;
    case "Duration":
      return new Millis(millis) as unknown as Tree;
    case "Timestamp":
      return new Millis(millis - WALL) as unknown as Tree;
    default:
      return fields;
  }
}
