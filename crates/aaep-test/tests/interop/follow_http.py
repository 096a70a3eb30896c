"""Follows one session of `aaep demo banking` with httpx, says yes, and prints every event as a line of JSON.

Usage: follow_http.py URL (1|2)    (the version of HTTP)
"""
import datetime
import json
import sys

import httpx

url, version = sys.argv[1:]
client = httpx.Client(
    base_url=url, http1=version == "1", http2=version == "2", trust_env=False, timeout=httpx.Timeout(30, read=None)
)
request = {
    "type": "subscription.request",
    "aaep_version": "1.0.0",
    "subscriber_id": "httpx",
    "capabilities": {"supports_confirmation_reply": True},
}
answer = client.post("/aaep/v1/subscriptions", json=request)
assert answer.status_code == 201, answer.text
assert answer.http_version == {"1": "HTTP/1.1", "2": "HTTP/2"}[version], answer.http_version
subscription = answer.json()["subscription_id"]


def reply(question):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    message = {
        "type": "confirmation.reply",
        "reply_token": question["reply_token"],
        "decision": "accept",
        "subscription_id": subscription,
        "timestamp": now,
    }
    answer = client.post("/aaep/v1/replies", json=message)
    assert answer.status_code == 204, answer.text


with client.stream("GET", answer.headers["location"], headers={"accept": "text/event-stream"}) as stream:
    assert stream.status_code == 200, stream.status_code
    for line in stream.iter_lines():
        if not line.startswith("data: "):
            continue
        event = json.loads(line.removeprefix("data: "))
        print(json.dumps(event), flush=True)
        if event["type"] == "aaep:agent.awaiting.confirmation":
            reply(event)
        if event["type"] == "aaep:agent.session.completed":
            break
close = {"type": "subscription.close", "subscription_id": subscription, "reason_code": "done"}
assert client.post("/aaep/v1/replies", json=close).status_code == 204
