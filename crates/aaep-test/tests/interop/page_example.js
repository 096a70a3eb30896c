// Reports what examples/page/index.html announces, and presses a button of each question, as a user would.
const pressed = new URLSearchParams(location.search).get("press");
const seen = { alert: "", connection: "", lines: 0 };

function look() {
  const alert = document.querySelector("[role=alert]").textContent;
  const connection = document.querySelector("[role=status]").textContent;
  const lines = [...document.querySelectorAll("[role=log] > li")].map((line) => line.textContent);
  if (connection !== seen.connection) tell("connection", { text: connection });
  for (const line of lines.slice(seen.lines)) tell("line", { text: line });
  const isNew = alert && alert !== seen.alert;
  Object.assign(seen, { alert, connection, lines: lines.length });
  if (!isNew) return;
  const group = document.querySelector("[role=group]");
  const buttons = [...group.querySelectorAll("button")];
  tell("alert", { text: alert, label: group.getAttribute("aria-label"), buttons: buttons.map((b) => b.textContent) });
  const button = buttons.find((button) => button.textContent.startsWith(pressed));
  button.focus();
  button.click();
}

new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
