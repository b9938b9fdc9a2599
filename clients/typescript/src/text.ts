/** Texts that fit into the protocol's limits, which are in bytes. */

const MARK = "…";
const MARK_BYTES = Buffer.byteLength(MARK);

/** The beginning of the text, in at most `limit` bytes of UTF-8, marked if something is missing. */
export function shorten(text: string, limit: number): string {
  // A character has at most three bytes for each of its UTF-16 units: most texts need not be encoded to measure them.
  if (text.length * 3 <= limit) return text.toWellFormed();
  const data = Buffer.from(text);
  if (data.length <= limit) return text.toWellFormed();
  let end = limit - MARK_BYTES;
  // A byte 10xxxxxx continues the character before it.
  while (end > 0 && ((data[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return data.toString("utf8", 0, end) + MARK;
}
