// Drives a coordinator by a client that is generated from its own description: the types come from /api/openapi.json,
// so that a wrong route, parameter or field in the description does not compile, and each answer is checked against the
// description. Arguments: the address, a credential, and the file with the description. Exits with 1 at the first
// failure.
import { readFile } from "node:fs/promises";
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Problem = components["schemas"]["Problem"];
type Described = {
  paths: Record<string, Record<string, { responses: Record<string, { content?: Record<string, unknown> }> }>>;
};

const [address = "", credential = "", file = ""] = process.argv.slice(2);
const described = JSON.parse(await readFile(file, "utf8")) as Described;

function fail(what: string): never {
  console.error(what);
  process.exit(1);
}

// Every answer is in the description, with the described type.
const documented: Middleware = {
  onResponse({ request, response, schemaPath }) {
    const step = `${request.method} ${schemaPath}`;
    const answer = described.paths[schemaPath]?.[request.method.toLowerCase()]?.responses[response.status];
    if (answer === undefined) fail(`${step}: ${response.status} is not in the description`);
    const kind = response.headers.get("content-type") ?? "";
    const kinds = Object.keys(answer.content ?? {});
    if (kinds.length > 0 && !kinds.some((known) => kind.startsWith(known))) {
      fail(`${step}: ${response.status} comes as ${kind}, and the description has ${kinds.join()}`);
    }
    console.log(`${step}: ${response.status}`);
  },
};

const rest = createClient<paths>({ baseUrl: address, headers: { authorization: `Bearer ${credential}` } });
rest.use(documented);

type Answer<T> = { data?: T; error?: unknown; response: Response };

async function must<T>(asked: Promise<Answer<T>>): Promise<NonNullable<T>> {
  const { data, error, response } = await asked;
  if (data === undefined || data === null) fail(`${response.url}: ${response.status} ${JSON.stringify(error)}`);
  return data;
}

async function refused(asked: Promise<Answer<unknown>>, status: number, code: string): Promise<void> {
  const { error, response } = await asked;
  const problem = error as Problem | undefined;
  if (response.status !== status || problem?.code !== code) {
    fail(`${response.url}: not refused by ${status} ${code}, but ${response.status} ${JSON.stringify(error)}`);
  }
  if (problem.requestId !== response.headers.get("x-request-id")) fail(`${response.url}: of which request?`);
}

function same(what: string, found: unknown, wanted: unknown): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (one !== other) fail(`${what}: ${one} and not ${other}`);
}

// A job, made from an object: a client that encoded it twice would be refused.
const config = { jobName: "generated", cron: "0 0 0 1 1 ?", shardingTotalCount: 3, jobParameter: "one" };
const path = { job: "generated" };
same("before", await must(rest.GET("/api/jobs")), []);
const made = await must(rest.PUT("/api/jobs/config", { params: { query: { dryRun: true } }, body: config }));
same("would be made", made[0]?.effect, "would_create");
same("is made", (await must(rest.PUT("/api/jobs/config", { body: config })))[0]?.jobName, "generated");

// Read with its tag, changed under it, and not under an old one.
const read = await rest.GET("/api/jobs/config/{job}", { params: { path } });
const tag = read.response.headers.get("etag") ?? fail("no tag");
same("is as it was sent", (await must(Promise.resolve(read)) as typeof config).jobParameter, "one");
const header = { "If-Match": tag };
const changed = { ...config, jobParameter: "two" };
await must(rest.PUT("/api/jobs/config", { params: { header }, body: changed }));
await refused(rest.PUT("/api/jobs/config", { params: { header }, body: changed }), 412, "CONFIG_CHANGED");

// Reads.
same("jobs", (await must(rest.GET("/api/jobs", { params: { query: { sort: "-jobName", limit: 10 } } }))).map((job) => job.jobName), ["generated"]);
const job = await must(rest.GET("/api/jobs/{job}", { params: { path, query: { upcoming: 2 } } }));
same("items and times", [job.shardingTotalCount, job.upcoming.length], [3, 2]);
same("items", (await must(rest.GET("/api/jobs/{job}/sharding", { params: { path } }))).map((item) => item.item), [0, 1, 2]);
same("machines", await must(rest.GET("/api/servers")), []);
same("instances", await must(rest.GET("/api/instances")), []);
same("coordinators", (await must(rest.GET("/api/cluster"))).coordinators.length, 1);
same("who", (await must(rest.GET("/api/session"))).role, "admin");
await must(rest.GET("/api/jobs/{job}/fires", { params: { path } }));
await must(rest.GET("/api/runs", { params: { query: { job: "generated", limit: 5 } } }));
const audit = await must(rest.GET("/api/events", { params: { query: { job: "generated" } } }));
if (audit.length < 2) fail(`the audit has ${audit.length} rows of two changes`);

// Changes.
for (const change of ["/api/jobs/{job}/pause", "/api/jobs/{job}/disable"] as const) {
  await must(rest.POST(change, { params: { path } }));
  await must(rest.DELETE(change, { params: { path } }));
}
const item = { ...path, item: 1 };
await must(rest.POST("/api/jobs/{job}/sharding/{item}/disable", { params: { path: item } }));
await must(rest.DELETE("/api/jobs/{job}/sharding/{item}/disable", { params: { path: item } }));

// Refusals.
await refused(rest.GET("/api/jobs/{job}", { params: { path: { job: "nosuch" } } }), 404, "JOB_UNKNOWN");
await refused(rest.GET("/api/jobs", { params: { query: { sort: "colour" } } }), 400, "REQUEST_INVALID");
await refused(rest.POST("/api/jobs/{job}/sharding/{item}/cancel", { params: { path: { ...path, item: 0 } } }), 404, "RUN_UNKNOWN");
await refused(rest.PUT("/api/jobs/config", { body: { jobName: "bad", shardingTotalCount: -1 } }), 400, "CONFIG_INVALID");
const nobody = createClient<paths>({ baseUrl: address });
nobody.use(documented);
await refused(nobody.GET("/api/jobs"), 401, "UNAUTHENTICATED");

same("removed", (await must(rest.DELETE("/api/jobs/config/{job}", { params: { path } })))[0]?.effect, "removed");
// Its nodes are removed after the answer.
const deadline = Date.now() + 20_000;
let left = await must(rest.GET("/api/jobs/count"));
while (left > 0 && Date.now() < deadline) left = await must(rest.GET("/api/jobs/count"));
same("jobs at the end", left, 0);
