/** The packed package: it is typed, and the full example works with it. */

import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { RealCoordinator } from "../tools/real.js";
import { until } from "../tools/workers.js";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "rosterd-package-"));
const modules = join(folder, "node_modules");
const coordinator = new RealCoordinator();

before(async () => {
  mkdirSync(join(modules, "rosterd"), { recursive: true });
  execFileSync("npm", ["pack", "--pack-destination", folder], { cwd: ROOT, stdio: "pipe" });
  const packed = readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "";
  execFileSync("tar", ["-xzf", join(folder, packed), "-C", join(modules, "rosterd"), "--strip-components", "1"]);
  for (const name of ["@grpc", "@bufbuild", "@types"])
    symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  await coordinator.start();
});

after(async () => {
  await coordinator.stop();
  rmSync(folder, { recursive: true });
});

test("programs are checked against the package's types, and compile", () => {
  for (const name of ["hello.ts", "orders.ts"]) copyFileSync(join(ROOT, "examples", name), join(folder, name));
  const flags = [
    "--strict",
    "--module",
    "nodenext",
    "--target",
    "es2022",
    "--types",
    "node",
    "--exactOptionalPropertyTypes",
  ];
  writeFileSync(
    join(folder, "others.ts"),
    'import { runHandler } from "rosterd/testing";\nimport { FencedFile } from "rosterd/fence";\n' +
      'export const end = await runHandler((run) => new FencedFile("a").write("", run), { item: 1 });\n',
  );
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const sources = ["hello.ts", "orders.ts", "others.ts"];
  execFileSync(process.execPath, [tsc, ...flags, ...sources], { cwd: folder, stdio: "pipe" });
});

test("the full example archives all regions, once per fire, and leaves", async () => {
  const environment = { ...process.env, ROSTERD_SERVER: coordinator.address };
  const child: ChildProcess = spawn(process.execPath, ["orders.js"], { cwd: folder, env: environment });
  let said = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (said += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (said += text));
  try {
    await until(() => said.includes("job orders: "), "the example is registered");
    await coordinator.ask("jobs", "trigger", "orders");
    const ended = async () => (await coordinator.runs("orders")).filter((run) => run.outcome === "succeeded");
    await until(async () => (await ended()).length >= 3, "the regions are archived");
    assert.deepEqual(
      (await ended()).map((run) => run.processed),
      [250, 250, 250],
    );
    assert.match(said, /"message":"\[orders\/0 token \d+\] archived","job":"orders","item":0,/);
    const closed = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGTERM");
    assert.equal(await closed, 0, said);
  } finally {
    child.kill("SIGKILL");
  }
});
