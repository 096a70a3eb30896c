"""A subscriber on the Unix socket, with the standard library alone.

socket_client.py PATH lengths|lines: says yes to every question, closes after the session, prints what it heard.
"""

import datetime
import json
import socket
import struct
import sys

path, framing = sys.argv[1:]
wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
wire.settimeout(120)
wire.connect(path)
reader = wire.makefile("rb")


def say(message):
    text = json.dumps(message).encode()
    wire.sendall(text + b"\n" if framing == "lines" else struct.pack(">I", len(text)) + text)


def hear():
    if framing == "lines":
        text = reader.readline()
    else:
        header = reader.read(4)
        text = reader.read(struct.unpack(">I", header)[0]) if header else b""
    return json.loads(text) if text else None


say({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "python",
     "capabilities": {"supports_confirmation_reply": True}})
accepted = hear()
subscription = accepted["subscription_id"]
heard = [accepted["type"]]
while heard[-1] != "aaep:agent.session.completed":
    event = hear()
    heard.append(event["type"])
    if event["type"] == "aaep:agent.awaiting.confirmation":
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        say({"type": "confirmation.reply", "reply_token": event["reply_token"], "decision": "accept",
             "subscription_id": subscription, "timestamp": now})
say({"type": "subscription.close", "subscription_id": subscription})
assert hear() is None, "the producer ends the connection"
print(json.dumps(heard))
