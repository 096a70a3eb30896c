// What both pages share. The address of the page says where the demo is.
const demo = new URLSearchParams(location.search).get("demo");

// Tells the test something. One after the other, so that the test hears it in order.
let told = Promise.resolve();
function tell(at, more = {}) {
  told = told.then(() => fetch("/told", { method: "POST", body: JSON.stringify({ at, ...more }) }));
}
window.onerror = (message) => tell("failed", { message: String(message) });
window.onunhandledrejection = (event) => tell("failed", { message: String(event.reason) });

const request = {
  type: "subscription.request",
  aaep_version: "1.0.0",
  subscriber_id: "page",
  capabilities: { supports_confirmation_reply: true, supports_clarification_reply: true },
};

function yes(subscription, question) {
  return {
    type: "confirmation.reply",
    reply_token: question.reply_token,
    decision: "accept",
    subscription_id: subscription,
    timestamp: new Date().toISOString(),
  };
}

function closing(subscription) {
  return { type: "subscription.close", subscription_id: subscription, reason_code: "done" };
}
