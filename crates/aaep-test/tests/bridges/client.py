"""A client of MCP that runs the commands of a test: JSON lines in, JSON lines out."""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


async def main() -> None:
    mode, command, *arguments = sys.argv[1:]
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(server, mode=mode) as client:
        print("ready", flush=True)
        loop = asyncio.get_running_loop()
        running = set()

        async def call(request) -> None:
            options = request.get("options", {})
            try:
                result = await client.call_tool(
                    request["tool"], request["arguments"], read_timeout_seconds=options.get("timeout")
                )
                text = "".join(getattr(item, "text", "") for item in result.content)
                print(json.dumps({"text": text, "is_error": bool(result.is_error)}), flush=True)
            except Exception as error:  # The test decides what it expects.
                print(json.dumps({"exception": f"{type(error).__name__}: {error}"}), flush=True)

        while line := await loop.run_in_executor(None, sys.stdin.readline):
            request = json.loads(line)
            if request["op"] == "close":
                break
            if request["op"] == "list":
                tools = await client.list_tools()
                print(json.dumps({"tools": [tool.name for tool in tools.tools]}), flush=True)
            else:
                task = asyncio.create_task(call(request))
                running.add(task)
                task.add_done_callback(running.discard)


asyncio.run(main())
