"""aiocometd_client.py URL OPTIONS

Runs the client of aiocometd. OPTIONS is a JSON object: "transport" ("long-polling" or "websocket"; by default the client chooses) and
"subscribe" (channels to subscribe to after the first handshake). For output and commands see tests/browser/bayeux_script.mjs.
"""

import asyncio
import json
import os
import sys
import threading

from aiocometd_noloop import Client, ConnectionType, Extension
from aiocometd_noloop.exceptions import AiocometdException


def emit(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


class Printer(Extension):
    """Prints every message from the server."""

    used = None

    async def outgoing(self, payload, headers):
        for message in payload:
            used = message.get("connectionType")
            if used not in (None, Printer.used):
                Printer.used = used
                emit(transport=used)

    async def incoming(self, payload, headers=None):
        for message in payload:
            channel = message["channel"]
            if channel.startswith("/meta/"):
                emit(**{channel.removeprefix("/meta/"): message})
            elif "successful" in message:
                emit(publish=message)
            else:
                emit(came={"channel": channel, "data": message["data"]})


async def receive(client: Client) -> None:
    while True:
        try:
            message = await client.receive()
        except AiocometdException as error:
            emit(ended=repr(error))
            return
        emit(message={"channel": message["channel"], "data": message["data"]})


async def execute(client: Client, name: str, argument: object) -> None:
    try:
        if name == "publish":
            await client.publish(*argument)
        elif name == "disconnect":
            await client.close()
            emit(disconnected=True)
        else:
            await getattr(client, name)(argument)
    except AiocometdException as error:
        # The server's error reply was already printed.
        emit(failed=repr(error))


def read_commands(loop: asyncio.AbstractEventLoop, commands: "asyncio.Queue[dict]") -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(commands.put_nowait, json.loads(line))
    # Leave without sending a disconnect.
    os._exit(0)


async def main(url: str, options: dict) -> None:
    loop, commands = asyncio.get_running_loop(), asyncio.Queue()
    threading.Thread(target=read_commands, args=(loop, commands), daemon=True).start()
    transport = options.get("transport")
    client = Client(
        url,
        ConnectionType(transport) if transport else None,
        # Wait without a limit until the connection is restored.
        connection_timeout=None,
        extensions=[Printer()],
    )
    await client.open()
    receiving = asyncio.ensure_future(receive(client))
    for channel in options.get("subscribe", []):
        await execute(client, "subscribe", channel)
    while True:
        for name, argument in (await commands.get()).items():
            await execute(client, name, argument)
        if client.closed:
            receiving.cancel()


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}))
