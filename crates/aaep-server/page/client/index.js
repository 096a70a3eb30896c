// aaep-client for the browser: a subscriber of the Agent Accessibility Event Protocol. It uses no other module.

export { AaepClient } from "./client.js";
export { AAEP_VERSION, AaepError, isTerminal, kindOf } from "./messages.js";
