// A client of MCP that runs the commands of a test: JSON lines in, JSON lines out.

import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "test-client", version: "1" }, { capabilities: {} });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
process.stdout.write("ready\n");

async function call({ tool, arguments: toolArguments, options }) {
  try {
    const abort = new AbortController();
    if (options.abort_after_ms) setTimeout(() => abort.abort("changed my mind"), options.abort_after_ms);
    const settings = { signal: abort.signal, timeout: options.timeout_ms ?? 120000 };
    if (options.progress) {
      settings.onprogress = (progress) => options.print_progress && print({ progress });
      settings.resetTimeoutOnProgress = true;
    }
    const result = await client.callTool({ name: tool, arguments: toolArguments }, undefined, settings);
    const text = result.content.map((item) => item.text ?? "").join("");
    print({ text, is_error: result.isError === true });
  } catch (error) {
    print({ exception: String(error) });
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.op === "close") break;
  if (request.op === "list") print({ tools: (await client.listTools()).tools.map((tool) => tool.name) });
  else call(request);
}
await client.close();
process.exit(0);
