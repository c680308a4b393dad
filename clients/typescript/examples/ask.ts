/** Ask one question about a folder: `node dist/examples/ask.js "What is in README.md?" [folder]`. */

import { SidecarClient, allow } from "sidecar-client";

const [question = "What is in README.md?", cwd = "."] = process.argv.slice(2);
const command = JSON.parse(process.env["SIDECAR_COMMAND"] ?? '["sidecar"]') as string[];

const client = await SidecarClient.spawn({ command, cwd, permission: allow });
try {
  const session = await client.startSession();
  for await (const event of session.stream(question)) {
    if (event.kind === "textDelta") process.stdout.write(event.data.delta);
    else if (event.kind === "toolStarted") console.error(`\n[${event.data.title}]`);
    else if (event.kind === "faulted") console.error(event.data.message);
  }
  console.log();
} finally {
  await client.close();
}
