// An agent that pays a bill, for Node 20 and later, without dependencies.
//
// With a server of its own:    aaep run --wait -- node agent.mjs
// With a running server:       node agent.mjs --url http://127.0.0.1:8377
//                              If the server requires a token, set AAEP_TOKEN, and pass --agent-id with the token's subject.
//
// It asks before it does what cannot be undone, and does it only if the answer is accept.
// The types are in agent.d.ts; editors and TypeScript (checkJs) use them, Node does not need them.
// @ts-check
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";

/** @typedef {import("./agent.d.ts").AgentEvent} AgentEvent */
/** @typedef {import("./agent.d.ts").Answer} Answer */
/** @typedef {import("./agent.d.ts").Link} Link */

const newId = () => `evt_${randomUUID().replaceAll("-", "")}`;

/** Events go to standard output, one JSON object per line; answers come on standard input. @returns {Link} */
function stdio() {
  /** @type {Map<string, (answer: Answer) => void>} */
  const waiting = new Map();
  const input = createInterface({ input: process.stdin });
  input.on("line", (line) => {
    /** @type {Answer} */
    const answer = JSON.parse(line);
    waiting.get(answer.event_id ?? "")?.(answer);
    waiting.delete(answer.event_id ?? "");
  });
  input.on("close", () => {
    for (const give of waiting.values()) give({ type: "refused", event_id: null, problems: [] });
  });
  /** @param {AgentEvent} event */
  const write = (event) =>
    new Promise((done) => process.stdout.write(JSON.stringify(event) + "\n", () => done(undefined)));
  return {
    emit: async (event) => void (await write(event)),
    ask: async (event) => {
      const event_id = newId();
      /** @type {Promise<Answer>} */
      const answer = new Promise((give) => waiting.set(event_id, give));
      await write({ ...event, event_id });
      return answer;
    },
    close: () => input.close(),
  };
}

/** Events go to a server. A question is a request that is answered when the user has decided.
 * @param {string} url @param {string | undefined} token @returns {Link} */
function http(url, token) {
  // All events of this process belong together; another process has another name.
  const address = `${url}/aaep/v1/agent/events?agent=bill-${randomUUID()}&wait=20`;
  /** @type {Record<string, string>} */
  const headers = { "content-type": "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  /** @param {AgentEvent} event @returns {Promise<Answer>} */
  const post = async (event) => {
    for (let attempt = 1; ; attempt++) {
      let response;
      try {
        // The same event_id again is the same event: it can be sent again without harm.
        response = await fetch(address, { method: "POST", headers, body: JSON.stringify(event) });
      } catch (error) {
        if (attempt === 5) throw error;
        await new Promise((done) => setTimeout(done, 1000));
        continue;
      }
      if (!response.ok && response.status !== 422) throw new Error(`${response.status} ${await response.text()}`);
      const answer = /** @type {Answer} */ (await response.json());
      if (answer.type !== "refused") return answer;
      // A tool must not run after its tool.invoked was refused, so this agent ends.
      console.error("The event was refused:", answer.problems.map((problem) => problem.message).join(" "));
      process.exit(1);
    }
  };
  return {
    emit: async (event) => void (await post({ event_id: newId(), ...event })),
    ask: async (event) => {
      const asked = { ...event, event_id: newId() };
      for (;;) {
        const answer = await post(asked);
        if (answer.type !== "pending") return answer;
      }
    },
    close: () => {},
  };
}

/** Only the user's yes is a yes. @param {Answer} answer */
const agreed = (answer) => answer.type === "outcome" && answer.decision === "accept";

/** @param {Link} link @param {string} agentId */
async function run(link, agentId) {
  await link.emit({
    type: "session.started",
    summary_normal: "Looking after your bills.",
    language: "en",
    producer: { agent_id: agentId, agent_name: "Bill agent" },
  });
  const account = await link.ask({
    type: "awaiting.clarification",
    question: "From which account?",
    accepted_response_kinds: ["multiple_choice"],
    choices: [
      { value: "checking", label: "Checking" },
      { value: "savings", label: "Savings" },
    ],
    default_response: "checking",
  });
  const from = account.type === "outcome" && typeof account.response === "string" ? account.response : "checking";
  const args = { to: "Power company", from, amount: 80 };
  const answer = await link.ask({
    type: "awaiting.confirmation",
    action: `Pay 80 dollars to the power company from ${from}.`,
    consequence: "The payment cannot be called back.",
    irreversible: true,
    risk_level: "high",
    tool: "pay",
    args,
  });
  if (agreed(answer)) {
    await link.emit({ type: "tool.invoked", tool: "pay", args, irreversible: true, summary_normal: "Paying the bill." });
    // Here it is paid, with exactly the arguments that were asked about.
    await link.emit({ type: "tool.completed", tool: "pay", status: "success", summary_normal: "The bill is paid." });
    await link.emit({ type: "session.completed", summary_normal: "The power bill is paid." });
  } else {
    await link.emit({ type: "session.completed", summary_normal: "Nothing was paid." });
  }
}

/** @param {string} name @returns {string | undefined} */
const flag = (name) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : undefined);
const url = flag("--url");
const link = url ? http(url, process.env.AAEP_TOKEN) : stdio();
await run(link, flag("--agent-id") ?? "bill-agent");
link.close();
