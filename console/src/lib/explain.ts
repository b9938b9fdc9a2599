// The coordinator's explanation of an item. Pure.

import type { Sentence } from './api/shapes';

export interface Piece {
  text: string;
  href?: string;
}

/** A sentence split at its links. A link whose words are not in it follows it. */
export function pieces(sentence: Pick<Sentence, 'text' | 'links'>): Piece[] {
  let out: Piece[] = [{ text: sentence.text }];
  for (const link of sentence.links) {
    const at = out.findIndex((piece) => piece.href === undefined && piece.text.includes(link.text));
    if (at < 0) {
      out.push({ text: ' ' }, { text: link.text, href: link.href });
      continue;
    }
    const whole = out[at]!.text;
    const place = whole.indexOf(link.text);
    const cut: Piece[] = [
      { text: whole.slice(0, place) },
      { text: link.text, href: link.href },
      { text: whole.slice(place + link.text.length) },
    ];
    out = [...out.slice(0, at), ...cut.filter((piece) => piece.text !== ''), ...out.slice(at + 1)];
  }
  return out;
}
