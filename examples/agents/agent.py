#!/usr/bin/env python3
"""An agent that tidies a mailbox, in Python, with nothing but the standard library.

With a server of its own:    aaep run --wait -- python3 agent.py
With a running server:       python3 agent.py --url http://127.0.0.1:8377
                             If the server requires a token, set AAEP_TOKEN, and pass --agent-id with the token's subject.

It asks before it does what cannot be undone, and does it only if the answer is accept.
"""

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid


class Stdio:
    """Events go to standard output, one JSON object per line; answers come on standard input."""

    def emit(self, event):
        print(json.dumps(event), flush=True)

    def ask(self, event):
        event = dict(event, event_id=f"evt_{uuid.uuid4().hex}")
        self.emit(event)
        for line in sys.stdin:
            answer = json.loads(line)
            if answer.get("event_id") == event["event_id"]:
                return answer
        return {"type": "refused", "problems": [{"message": "Nobody answers any more."}]}


class Http:
    """Events go to a server. A question is a request that is answered when the user has decided."""

    def __init__(self, url, token):
        # All events of this process belong together; another process has another name.
        self.url = f"{url}/aaep/v1/agent/events?agent=mail-{uuid.uuid4().hex}&wait=20"
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def emit(self, event):
        # The same event_id again is the same event: after a lost connection it can be sent again without harm.
        event = dict({"event_id": f"evt_{uuid.uuid4().hex}"}, **event)
        for attempt in range(5):
            request = urllib.request.Request(self.url, json.dumps(event).encode(), self.headers)
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                if error.code != 422:
                    raise
                problems = json.load(error)["problems"]
                # A tool must not run after its tool.invoked was refused, so this agent ends.
                sys.exit("The event was refused: " + " ".join(problem["message"] for problem in problems))
            except urllib.error.URLError:
                if attempt == 4:
                    raise
                time.sleep(1)

    def ask(self, event):
        event = dict(event, event_id=f"evt_{uuid.uuid4().hex}")
        while True:
            answer = self.emit(event)
            if answer["type"] != "pending":
                return answer


def agreed(answer):
    """Only the user's yes is a yes: not a refusal, not silence, not a question that was withdrawn."""
    return answer.get("type") == "outcome" and answer.get("decision") == "accept"


def run(link, agent_id):
    link.emit({"type": "session.started", "summary_normal": "Tidying your mailbox.", "language": "en",
               "producer": {"agent_id": agent_id, "agent_name": "Mail agent"}})
    link.emit({"type": "tool.invoked", "tool": "list_mail", "summary_normal": "Looking for old letters."})
    link.emit({"type": "tool.completed", "tool": "list_mail", "status": "success",
               "summary_normal": "There are 12 letters from last year."})
    link.emit({"type": "progress.updated", "progress": {"percent": 50}, "summary_normal": "Half way."})

    args = {"folder": "old", "count": 12}
    answer = link.ask({"type": "awaiting.confirmation", "action": "Delete 12 letters.",
                       "consequence": "They cannot be brought back.", "irreversible": True, "risk_level": "high",
                       "tool": "delete_mail", "args": args})
    if agreed(answer):
        link.emit({"type": "tool.invoked", "tool": "delete_mail", "args": args, "irreversible": True,
                   "summary_normal": "Deleting 12 letters."})
        # Here they are deleted, with exactly the arguments that were asked about.
        link.emit({"type": "tool.completed", "tool": "delete_mail", "status": "success"})
        text = "I deleted 12 letters. Your mailbox is tidy."
    else:
        text = "I deleted nothing. All letters are still there."
    for word in text.split(" "):
        link.emit({"type": "output.streaming", "chunk": word + " "})
    link.emit({"type": "output.streaming", "chunk": "", "complete": True})
    link.emit({"type": "session.completed", "summary_normal": "Your mailbox is looked after."})


def main():
    parser = argparse.ArgumentParser(description="An agent that tidies a mailbox.")
    parser.add_argument("--url", help="the server; without it, standard input and output are used")
    parser.add_argument("--agent-id", default="mail-agent", help="with a token: its subject, or a name below it")
    arguments = parser.parse_args()
    link = Http(arguments.url, os.environ.get("AAEP_TOKEN")) if arguments.url else Stdio()
    run(link, arguments.agent_id)


if __name__ == "__main__":
    main()
