// Server-sent events over fetch. EventSource cannot resume after an intentional close, and hides why it failed.

/** One event. */
export interface ServerEvent {
  id: string;
  kind: string;
  data: string;
}

/** Splits a stream of text into events. Feed it pieces as they arrive; it buffers incomplete ones. */
export class EventParser {
  #rest = '';
  #kind = '';
  #data: string[] = [];
  #id: string;

  constructor(lastId = '') {
    this.#id = lastId;
  }

  push(text: string): ServerEvent[] {
    const found: ServerEvent[] = [];
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
      if (line === '') {
        if (this.#data.length > 0) {
          found.push({ id: this.#id, kind: this.#kind || 'message', data: this.#data.join('\n') });
        }
        this.#kind = '';
        this.#data = [];
        continue;
      }
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') this.#kind = value;
      else if (field === 'data') this.#data.push(value);
      else if (field === 'id') this.#id = value;
    }
    return found;
  }
}
