// What an agent sends and receives, for TypeScript. See docs/guide/agents.md.

/** One event. Missing fields are filled in, except for text that people hear. */
export type AgentEvent = {
  type: string;
  event_id?: string;
  session_id?: string;
  language?: string;
  producer?: { agent_id: string; agent_name?: string; agent_version?: string; model?: string };
  [field: string]: unknown;
};

/** How a question ended. */
export type Outcome = {
  type: "outcome";
  event_id: string;
  session_id: string;
  verdict: string;
  /** Of a confirmation. Act on accept only. */
  decision?: "accept" | "reject";
  /** Of a clarification; null if there is no answer. */
  response?: string | number | boolean | null;
  modified_action?: Record<string, unknown>;
};

/** An event that was not emitted. */
export type Refused = {
  type: "refused";
  event_id: string | null;
  problems: { message: string; rule?: string; pointer?: string }[];
};

/** Over HTTP: an event that was emitted, and a question that is not resolved yet. */
export type Published = { type: "published"; event_id: string; session_id: string };
export type Pending = { type: "pending"; event_id: string };

export type Answer = Outcome | Refused | Published | Pending;

export type Link = {
  emit(event: AgentEvent): Promise<void>;
  ask(event: AgentEvent): Promise<Answer>;
  close(): void;
};
