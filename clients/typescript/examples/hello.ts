import { Worker } from "rosterd";

const worker = new Worker({ server: "localhost:7700", slots: 8 });

worker.job("hello", (run) => {
  console.log("item", run.item, "of", run.total, run.itemParameter);
});

await worker.run();
