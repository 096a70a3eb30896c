// Installed by `aaep attach opencode`, removed by `aaep detach opencode`.
import { spawn } from "node:child_process";

const program = "@PROGRAM@";

// Runs the hook program. Resolves to its output; an error is the same as no answer.
function hook(event, payload, running) {
  return new Promise((resolve) => {
    const child = spawn(program, ["hook", "opencode", event], { stdio: ["pipe", "pipe", "ignore"] });
    let output = "";
    child.on("error", () => resolve(""));
    child.stdin.on("error", () => {});
    child.stdout.on("data", (data) => (output += data));
    child.on("close", () => resolve(output));
    child.stdin.end(JSON.stringify(payload));
    running?.(child);
  });
}

export const Aaep = async ({ client, directory }) => {
  const asking = new Map();
  const texts = new Map();
  return {
    "chat.message": async ({ sessionID }, { parts }) => {
      const prompt = (parts ?? []).map((part) => part.text ?? "").join("\n");
      await hook("event", { event: "UserPromptSubmit", session_id: sessionID, prompt, cwd: directory });
    },
    "tool.execute.after": async ({ sessionID, tool, args }) => {
      await hook("event", { event: "PostToolUse", session_id: sessionID, tool_name: tool, tool_input: args ?? {} });
    },
    event: async ({ event }) => {
      const { type, properties } = event;
      if (type === "message.part.updated" && properties.part?.type === "text" && properties.part.time?.end) {
        texts.set(properties.part.sessionID, properties.part.text);
      } else if (type === "session.idle") {
        const text = texts.get(properties.sessionID) ?? "";
        texts.delete(properties.sessionID);
        hook("event", { event: "Stop", session_id: properties.sessionID, text });
      } else if (type === "permission.replied") {
        // The user answered in the terminal, so the question is withdrawn.
        asking.get(properties.requestID)?.kill("SIGTERM");
      } else if (type === "permission.asked") {
        const payload = { session_id: properties.sessionID, permission: properties.permission, metadata: properties.metadata ?? {}, cwd: directory };
        // Not awaited: opencode shows its own question meanwhile, and the first answer wins.
        hook("permission", payload, (child) => asking.set(properties.id, child)).then(async (output) => {
          asking.delete(properties.id);
          let reply;
          try {
            reply = JSON.parse(output).reply;
          } catch {
            return;
          }
          if (reply !== "once" && reply !== "reject") return;
          const path = { id: properties.sessionID, permissionID: properties.id };
          await client.postSessionIdPermissionsPermissionId({ path, body: { response: reply } });
        });
      }
    },
  };
};
