/** The driver under failures: a defect of its own, and a thread of user code that handles nothing. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Shared } from "../../src/clock.js";
import { Driver } from "../../src/thread/driver.js";
import type { News, Orders } from "../../src/thread/link.js";
import { resolve } from "../../src/options.js";
import { until } from "../tools/workers.js";

function driven(): { driver: Driver; shared: Shared; news: News[] } {
  const { settings, access } = resolve({ server: "127.0.0.1:1", slots: 1 }, {});
  const shared = Shared.create(settings.slots);
  const news: News[] = [];
  const orders: Orders = {
    settings,
    access,
    registrations: [{ job: "hello", handlerType: "hello", config: "", overwrite: false }],
    shared: shared.parts,
    health: undefined,
    metrics: false,
  };
  return { driver: new Driver(orders, shared, (one) => news.push(one)), shared, news };
}

test("a defect of the client's own ends the lease and the worker, with what it was", async () => {
  const { driver, shared, news } = driven();
  shared.leaseStopsAt = shared.boot() + 60_000;
  driver.take({ type: "ended", key: undefined as never, ending: { kind: "returned" } });
  await until(() => news.length > 0, "it is over");
  const [over] = news;
  assert.ok(over?.type === "over" && over.defeat?.kind === "internal");
  assert.match(over.defeat.detail, /^TypeError: /);
  assert.deepEqual([driver.over, driver.ready, shared.leaseOver(), shared.liveStream], [true, false, true, 0]);
});

test("log lines that nobody takes are left out, and counted once somebody does", () => {
  const { driver, shared, news } = driven();
  for (let n = 0; n < 2_000; n += 1) driver.line({ type: "note", level: "info", text: `line ${n}` });
  assert.equal(news.length, 1_024);
  for (let n = news.length; n > 0; n -= 1) shared.lines(-1);
  driver.line({ type: "note", level: "info", text: "the last" });
  const last = news.slice(-2).map((one) => (one.type === "note" ? one.text : one.type));
  assert.deepEqual(last, ["976 log lines were left out before this one", "the last"]);
});
