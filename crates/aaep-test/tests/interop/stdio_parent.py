"""A program that starts an agent as its child and follows it over standard input and output.

stdio_parent.py AAEP
"""

import datetime
import json
import subprocess
import sys

child = subprocess.Popen([sys.argv[1], "stdio", "demo", "banking", "--no-pauses"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def say(**call):
    child.stdin.write(json.dumps({"jsonrpc": "2.0", **call}) + "\n")
    child.stdin.flush()


def hear():
    line = child.stdout.readline()
    return json.loads(line) if line else None


say(id="p", method="aaep.ping")
assert hear() == {"jsonrpc": "2.0", "id": "p", "result": {}}
say(id=1, method="aaep.dance")
assert hear()["error"]["code"] == -32601
child.stdin.write("not JSON\n")
child.stdin.flush()
assert hear()["error"]["code"] == -32700
say(id=2, method="aaep.subscribe", params={
    "type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "parent",
    "capabilities": {"supports_confirmation_reply": True, "supports_clarification_reply": True}})
accepted = hear()
assert accepted["id"] == 2, accepted
subscription = accepted["result"]["subscription_id"]
say(id=3, method="aaep.renegotiate", params={
    "type": "subscription.renegotiate", "subscription_id": subscription,
    "capabilities": {"preferred_verbosity": "terse"}})
renegotiated, heard, closed = False, [], None
while closed is None:
    line = hear()
    if line.get("id") == 3:
        renegotiated = line["result"]["honored_capabilities"]["preferred_verbosity"] == "terse"
    elif line["method"] == "aaep.ping":
        say(id=line["id"], result={})
    elif line["method"] == "aaep.event":
        event = line["params"]
        heard.append(event["type"])
        if event["type"] == "aaep:agent.awaiting.confirmation":
            now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
            say(method="aaep.reply", params={
                "type": "confirmation.reply", "reply_token": event["reply_token"], "decision": "accept",
                "subscription_id": subscription, "timestamp": now})
    elif line["method"] == "aaep.close":
        closed = line["params"]
assert closed["type"] == "subscription.close" and closed["subscription_id"] == subscription, closed
assert hear() is None, "nothing comes after the close"
child.stdin.close()
code = child.wait(timeout=120)
print(json.dumps({"heard": heard, "renegotiated": renegotiated, "code": code, "errors": child.stderr.read()}))
