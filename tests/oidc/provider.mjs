// A provider of identities for the tests: oidc-provider with its own pages for logging in, on a free port of loopback. It says
// where it is, is told one line, the address that the coordinator comes back to, and then serves. Whoever it is asked for by name
// exists: ann is an operator, bob an admin of few jobs, everybody else has no group. Its end is that of standard input.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Provider } from "oidc-provider";

const people = {
  ann: { groups: ["staff", "rosterd-operators"] },
  bob: { groups: ["rosterd-admins"], rosterd_jobs: ["billing-*"] },
};

let handle = (_, response) => response.writeHead(503).end();
const server = createServer((request, response) => handle(request, response));
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
console.log(issuer);

function key() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" };
}

const lines = createInterface({ input: process.stdin });
lines.once("line", (redirect) => {
  const provider = new Provider(issuer, {
    clients: [
      { client_id: "console", client_secret: "a secret: with/marks", redirect_uris: [redirect], grant_types: ["authorization_code"] },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username", "groups", "rosterd_jobs"] },
    cookies: { keys: ["only for tests"] },
    jwks: { keys: [key(), key()] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true } },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, ...people[id] }),
    }),
  });
  handle = provider.callback();
  console.log("ready");
});
lines.on("close", () => process.exit(0));
