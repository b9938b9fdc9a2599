// Removes a build folder, so that nothing of an older build is packed or tested.
import { rmSync } from "node:fs";

const folder = process.argv[2];
if (!["build", "dist"].includes(folder)) throw new Error(`not a folder of a build: ${folder}`);
rmSync(new URL(`../${folder}`, import.meta.url), { recursive: true, force: true });
