// Writes src/lib/api/types.ts from the API's own description, as a running coordinator serves it:
//   ROSTERD_URL=http://127.0.0.1:7700 npm run types [-- FILE]
// With FILE the types go there instead.
import { writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import { format, resolveConfig } from 'prettier';

const coordinator = process.env.ROSTERD_URL ?? 'http://127.0.0.1:7700';
const out = process.argv[2] ?? new URL('../src/lib/api/types.ts', import.meta.url).pathname;
const response = await fetch(new URL('/api/openapi.json', coordinator));
if (!response.ok) throw new Error(`${coordinator} answers ${response.status}: ${await response.text()}`);
const description = await response.json();
// The console needs the shapes; the version of the build is not part of them.
description.info.version = '';
const text = `// Made by \`npm run types\` from /api/openapi.json. Do not edit.\n${astToString(await openapiTS(description))}`;
const config = await resolveConfig(out);
writeFileSync(out, await format(text, { ...config, parser: 'typescript' }));
console.log(`${out}: ${text.split('\n').length} lines`);
