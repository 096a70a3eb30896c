"""A subscriber over gRPC, with grpcio and a stub made from the published definition.

grpc_client.py ADDRESS DIRECTORY_OF_DEFINITIONS PLACE_FOR_THE_STUB
"""

import datetime
import json
import queue
import sys

import grpc
from grpc_tools import protoc

address, definitions, place = sys.argv[1:]
made = protoc.main(["protoc", f"-I{definitions}", f"--python_out={place}", f"--grpc_python_out={place}",
                    f"{definitions}/aaep/v1/aaep.proto"])
assert made == 0, "the definition cannot be compiled"
sys.path.insert(0, place)
from aaep.v1 import aaep_pb2, aaep_pb2_grpc  # noqa: E402

stub = aaep_pb2_grpc.AaepServiceStub(grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]))
manifest = json.loads(stub.GetManifest(aaep_pb2.GetManifestRequest(), timeout=120).json)
outgoing = queue.Queue()


def say(message):
    outgoing.put(aaep_pb2.AaepMessage(json=json.dumps(message).encode(), message_type=message["type"]))


say({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "python",
     "capabilities": {"supports_confirmation_reply": True}})
heard = []
call = stub.Subscribe(iter(outgoing.get, None), timeout=120)
for message in call:
    content = json.loads(message.json)
    assert content["type"] == message.message_type
    heard.append(content["type"])
    if content["type"] == "subscription.accepted":
        subscription = content["subscription_id"]
    if content["type"] == "aaep:agent.awaiting.confirmation":
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        say({"type": "confirmation.reply", "reply_token": content["reply_token"], "decision": "accept",
             "subscription_id": subscription, "timestamp": now})
    if content["type"] == "aaep:agent.session.completed":
        say({"type": "subscription.close", "subscription_id": subscription})
assert call.code() == grpc.StatusCode.OK, call.code()
outgoing.put(None)

# A request that cannot be served has its status.
refused = stub.Subscribe(iter([aaep_pb2.AaepMessage(json=b"{}")]), timeout=120)
try:
    answers = [json.loads(message.json) for message in refused]
    raise AssertionError(f"not refused: {answers}")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
print(json.dumps({"heard": heard, "transports": manifest["transports_supported"]}))
