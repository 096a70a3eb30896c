"""Follows one session of `aaep demo banking` with websockets, says yes, and prints every event as a line of JSON.

Usage: follow_ws.py URL
"""
import datetime
import json
import sys

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

request = {
    "type": "subscription.request",
    "aaep_version": "1.0.0",
    "subscriber_id": "websockets",
    "capabilities": {"supports_confirmation_reply": True},
}
with connect(sys.argv[1], subprotocols=["aaep.v1"], proxy=None) as socket:
    assert socket.subprotocol == "aaep.v1", socket.subprotocol
    socket.send(json.dumps(request))
    accepted = json.loads(socket.recv())
    assert accepted["type"] == "subscription.accepted", accepted
    subscription = accepted["subscription_id"]
    while True:
        event = json.loads(socket.recv())
        print(json.dumps(event), flush=True)
        if event["type"] == "aaep:agent.awaiting.confirmation":
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            message = {
                "type": "confirmation.reply",
                "reply_token": event["reply_token"],
                "decision": "accept",
                "subscription_id": subscription,
                "timestamp": now,
            }
            socket.send(json.dumps(message))
        if event["type"] == "aaep:agent.session.completed":
            break
    socket.send(json.dumps({"type": "subscription.close", "subscription_id": subscription, "reason_code": "done"}))
    try:
        while True:
            socket.recv()
    except ConnectionClosed as closed:
        assert closed.rcvd.code == 4005, closed
