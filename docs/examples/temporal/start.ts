// Start a loop with the plain Temporal SDK, approve what it asks for, and read the result.
//
// npm ci && npx tsc && node start.js task.json
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Connection } from "@temporalio/client";
import { PerdureCodec } from "./codec";

type Status = { phase: string; gates: { name: string; prompt: string }[] };
type Result = { outcome: string; output: string | null };

async function main(file: string): Promise<void> {
  const address = process.env.TEMPORAL_ADDRESS ?? "localhost:7233";
  const namespace = process.env.TEMPORAL_NAMESPACE ?? "default";
  const { CODEC_ADDRESS: codec, CODEC_TOKEN: token = "" } = process.env; // with an encryption key
  const dataConverter = codec ? { payloadCodecs: [new PerdureCodec(codec, token, namespace)] } : {};
  const connection = await Connection.connect({ address });
  const client = new Client({ connection, namespace, dataConverter });
  const run = await client.workflow.start("AgentLoop", {
    args: [JSON.parse(readFileSync(file, "utf8"))],
    workflowId: `notes-${randomUUID()}`,
    taskQueue: process.env.PERDURE_TASK_QUEUE ?? "perdure",
  });
  let status = await run.query<Status>("status");
  while (status.phase !== "ended") {
    for (const gate of status.gates) {
      console.log("approve:", gate.prompt);
      await run.signal("approve", gate.name); // binds to exactly these arguments
    }
    await sleep(1000);
    status = await run.query<Status>("status");
  }
  const result: Result = await run.result();
  console.log(`${result.outcome}\n${result.output}`);
  await client.connection.close();
}

main(process.argv[2]!);
