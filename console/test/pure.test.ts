import { describe, expect, it } from 'vitest';
import { series } from '../src/lib/counts';
import { lines } from '../src/lib/diff';
import { pieces } from '../src/lib/explain';
import { duration, fromInput, relative, toInput } from '../src/lib/format';
import { at, lanes, moments } from '../src/lib/gantt';
import { Palette, short, split } from '../src/lib/instance';
import { filtered } from '../src/lib/job-list';
import { EventParser } from '../src/lib/sse';
import { workers } from '../src/lib/workers';
import type { Instance, JobBrief } from '../src/lib/api/shapes';

describe('server-sent events', () => {
  it('are the same however the stream is cut', () => {
    const stream = ': hello\n\nevent: job\nid: c-1.7\ndata: {"a":1}\n\nid: c-1.8\r\ndata: x\r\ndata: y\r\n\r\n';
    const whole = new EventParser().push(stream);
    expect(whole).toEqual([
      { id: 'c-1.7', kind: 'job', data: '{"a":1}' },
      { id: 'c-1.8', kind: 'message', data: 'x\ny' },
    ]);
    for (let size = 1; size < stream.length; size += 1) {
      const parser = new EventParser();
      const found = [];
      for (let from = 0; from < stream.length; from += size)
        found.push(...parser.push(stream.slice(from, from + size)));
      expect(found, `in pieces of ${size}`).toEqual(whole);
    }
  });

  it('keep the last id where an event has none', () => {
    expect(new EventParser('c.3').push('data: x\n\n')[0]?.id).toBe('c.3');
  });
});

describe('the difference of two files', () => {
  it('names the lines that went and came, in place', () => {
    const text = lines('a\nb\nc\nd\n', 'a\nx\nc\nd\ne\n').map((line) => `${line.kind} ${line.text}`);
    expect(text).toEqual(['same a', 'old b', 'new x', 'same c', 'same d', 'new e']);
  });

  it('gives both texts back', () => {
    const old = 'cron: 1\nitems: 2\nitems: 2\n';
    const fresh = 'items: 2\ncron: 1\nname: x\n';
    const all = lines(old, fresh);
    const side = (kind: 'old' | 'new') =>
      all
        .filter((line) => line.kind !== kind)
        .map((line) => `${line.text}\n`)
        .join('');
    expect(side('new')).toBe(old);
    expect(side('old')).toBe(fresh);
  });
});

describe('ownership over time', () => {
  const rows = [
    { item: 1, instanceId: 'b', from: '2026-01-01T00:00:10Z', to: null },
    { item: 0, instanceId: 'a', from: '2026-01-01T00:00:00Z', to: '2026-01-01T00:00:50Z' },
    { item: 0, instanceId: 'b', from: '2026-01-01T00:00:50Z' },
    { item: 2, instanceId: 'b', from: '2025-01-01T00:00:00Z', to: '2025-01-02T00:00:00Z' },
  ];
  const from = Date.parse('2026-01-01T00:00:00Z');
  const to = from + 100_000;

  it('is drawn within its span, what lies outside is left out', () => {
    const drawn = lanes(rows, from, to);
    expect(drawn.map((lane) => lane.item)).toEqual([0, 1]);
    expect(drawn[0]!.bars.map((bar) => [bar.start, bar.width])).toEqual([
      [0, 0.5],
      [0.5, 0.5],
    ]);
    expect(drawn[1]!.bars[0]).toMatchObject({ start: 0.1, width: 0.9 });
  });

  it('has at each moment one owner of an item, also at the change', () => {
    expect(at(rows, from + 50_000).map((row) => `${row.item} ${row.instanceId}`)).toEqual(['0 b', '1 b']);
    expect(at(rows, from + 49_999).map((row) => `${row.item} ${row.instanceId}`)).toEqual(['0 a', '1 b']);
  });

  it('is scrubbed from change to change', () => {
    expect(moments(rows, from, to).map((moment) => (moment - from) / 1000)).toEqual([50, 10, 0]);
  });
});

describe('names of instances', () => {
  it('are cut at their last separator and stay told apart', () => {
    expect(split('10.0.0.1@-@abc')).toEqual({ address: '10.0.0.1', unique: 'abc' });
    expect(split('a@-@b@-@c')).toEqual({ address: 'a@-@b', unique: 'c' });
    expect(short('host@-@0123456789')).toBe('host 6789');
    const palette = new Palette();
    expect([palette.of('a'), palette.of('b'), palette.of('a')]).toEqual([0, 1, 0]);
  });
});

describe('a list of jobs', () => {
  const counters = {
    runs: 0,
    succeeded: 0,
    failed: 0,
    cancelled: 0,
    crashed: 0,
    timedOut: 0,
    misfired: 0,
    skipped: 0,
    missed: {},
  };
  const job = (jobName: string, state: string, nextFireTime?: string): JobBrief =>
    ({
      jobName,
      state,
      status: 'OK',
      description: `about ${jobName}`,
      nextFireTime,
      counters,
      shardingTotalCount: 1,
      running: 0,
      instanceCount: 1,
      timeZone: 'UTC',
      handlerType: '',
    }) as JobBrief;
  const jobs = [
    job('b', 'enabled'),
    job('a', 'no_worker', '2026-01-01T00:00:00Z'),
    job('C', 'damaged', '2025-01-01T00:00:00Z'),
  ];
  const names = (sort: string, search = '', state = '') =>
    filtered(jobs, { search, state, sort }).map((one) => one.jobName);

  it('sorts by urgency, by time with the never last, and by name', () => {
    expect(names('state')).toEqual(['C', 'a', 'b']);
    expect(names('next')).toEqual(['C', 'a', 'b']);
    expect(names('-next')).toEqual(['b', 'a', 'C']);
    expect(names('nonsense')).toEqual(['C', 'a', 'b']);
  });

  it('finds by name and description in any case', () => {
    expect(names('name', 'ABOUT c')).toEqual(['C']);
    expect(names('name', '', 'no_worker')).toEqual(['a']);
  });
});

describe('times', () => {
  it('are near in the unit that fits', () => {
    expect(relative(90_000, 0, 'en-GB')).toBe('in 1 min');
    expect(relative(0, 3_700_000, 'en-GB')).toBe('1 hr ago');
    expect([duration(12), duration(1500), duration(65_000), duration(3_660_000)]).toEqual([
      '12 ms',
      '1.50 s',
      '1 min 5 s',
      '1 h 1 min',
    ]);
  });

  it('go through an input and back', () => {
    const at = '2026-03-04T05:06:07.000Z';
    expect(fromInput(toInput(at))).toBe(at);
    expect([fromInput(''), toInput('nonsense')]).toEqual(['', '']);
  });

  it('are counted into their interval', () => {
    const row = (from: string, succeeded: number, failed: number) => ({
      from,
      succeeded,
      failed,
      timedOut: 0,
      crashed: 0,
    });
    const rows = [
      row('1970-01-01T00:00:01Z', 2, 1),
      row('1970-01-01T00:00:01.5Z', 1, 0),
      row('1970-01-01T00:00:09Z', 9, 0),
    ];
    expect(series(rows, 0, 3000, 1000)).toEqual({ times: [0, 1, 2], succeeded: [0, 3, 0], failed: [0, 1, 0] });
  });
});

describe('an explanation', () => {
  it('has its links where their words stand, the others behind it', () => {
    const sentence = {
      text: 'It is on ann since ann came.',
      links: [
        { text: 'ann', href: 'x' },
        { text: 'log', href: 'y' },
      ],
    };
    expect(pieces(sentence)).toEqual([
      { text: 'It is on ' },
      { text: 'ann', href: 'x' },
      { text: ' since ann came.' },
      { text: ' ' },
      { text: 'log', href: 'y' },
    ]);
  });
});

describe('instances', () => {
  it('of one process are one worker', () => {
    const one = (instanceId: string, jobName: string, enabled = true): Instance =>
      ({
        instanceId,
        jobName,
        enabled,
        items: 2,
        running: 1,
        slots: 4,
        serverIp: '',
        coordinator: '',
        client: '',
        labels: {},
      }) as Instance;
    const found = workers([one('b', 'x'), one('a', 'x'), one('b', 'y', false)]);
    expect(found.map((worker) => [worker.id, worker.jobs.length, worker.items, worker.slots, worker.enabled])).toEqual([
      ['a', 1, 2, 4, true],
      ['b', 2, 4, 4, false],
    ]);
  });
});
