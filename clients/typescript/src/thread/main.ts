/** The thread of the stream: worker.ts starts it, and ends it once it has reported its end. */

import { parentPort, workerData } from "node:worker_threads";
import { Shared } from "../clock.js";
import { Driver } from "./driver.js";
import { serveHealth } from "./health.js";
import type { News, Order, Orders } from "./link.js";

function main(): void {
  const port = parentPort;
  if (port === null) throw new Error("this file is the thread of a rosterd worker: it is not run by itself");
  const orders = workerData as Orders;
  const driver = new Driver(orders, Shared.of(orders.shared), (news: News) => {
    port.postMessage(news);
  });
  if (orders.health !== undefined) {
    serveHealth({
      ...orders.health,
      alive: () => !driver.over,
      ready: () => driver.ready,
      listening: (at) => {
        driver.line({ type: "healthAt", port: at });
      },
      failed: (error) => {
        driver.line({ type: "note", level: "error", text: `health is not served: ${error.message}` });
      },
    });
  }
  port.on("message", (order: Order) => {
    driver.take(order);
  });
  driver.take({ type: "start" });
}

main();
