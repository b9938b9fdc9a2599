// Writes src/proto from the repository's proto/. `--check` only reports whether it is fresh.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(here, "..", "..", "proto");
const committed = join(here, "src", "proto");

function generate(target) {
  const template = {
    version: "v2",
    plugins: [
      {
        local: [process.execPath, join(here, "node_modules/@bufbuild/protoc-gen-es/bin/protoc-gen-es")],
        out: target,
        opt: ["target=ts", "import_extension=js"],
      },
    ],
    inputs: [{ directory: source, paths: ["worker", "types"].map((name) => join(source, `rosterd/v1/${name}.proto`)) }],
  };
  const buf = join(here, "node_modules/@bufbuild/buf/bin/buf");
  execFileSync(process.execPath, [buf, "generate", "--template", JSON.stringify(template)], { cwd: here });
}

function contents(folder) {
  const names = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".ts"));
  return new Map(names.sort().map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

if (process.argv.includes("--check")) {
  const fresh = mkdtempSync(join(tmpdir(), "rosterd-proto-"));
  try {
    generate(fresh);
    const [now, then] = [contents(fresh), contents(committed)];
    const stale = [...new Set([...now.keys(), ...then.keys()])].filter((name) => now.get(name) !== then.get(name));
    if (stale.length > 0) {
      console.error(`src/proto is not what proto/ says now (${stale.join(", ")}): npm run generate`);
      process.exitCode = 1;
    }
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
} else {
  rmSync(committed, { recursive: true, force: true });
  generate(committed);
}
