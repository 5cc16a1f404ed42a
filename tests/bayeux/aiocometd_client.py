"""aiocometd_client.py URL OPTIONS

The client of aiocometd. OPTIONS are JSON: "transport" ("long-polling" or "websocket"; else it chooses) and "subscribe" (channels to
follow from the first handshake on). What it prints and takes: tests/browser/bayeux_script.mjs.
"""

import asyncio
import json
import os
import sys
import threading

from aiocometd_noloop import Client, ConnectionType, Extension
from aiocometd_noloop.exceptions import AiocometdException


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


class Told(Extension):
    """Prints every message that comes."""

    used = None

    async def outgoing(self, payload, headers):
        for message in payload:
            used = message.get("connectionType")
            if used not in (None, Told.used):
                Told.used = used
                tell(transport=used)

    async def incoming(self, payload, headers=None):
        for message in payload:
            channel = message["channel"]
            if channel.startswith("/meta/"):
                tell(**{channel.removeprefix("/meta/"): message})
            elif "successful" in message:
                tell(publish=message)
            else:
                tell(came={"channel": channel, "data": message["data"]})


async def receive(client: Client) -> None:
    while True:
        try:
            message = await client.receive()
        except AiocometdException as error:
            tell(ended=repr(error))
            return
        tell(message={"channel": message["channel"], "data": message["data"]})


async def obey(client: Client, name: str, argument: object) -> None:
    try:
        if name == "publish":
            await client.publish(*argument)
        elif name == "disconnect":
            await client.close()
            tell(disconnected=True)
        else:
            await getattr(client, name)(argument)
    except AiocometdException as error:
        # The server's refusal was already printed.
        tell(failed=repr(error))


def read_commands(loop: asyncio.AbstractEventLoop, commands: "asyncio.Queue[dict]") -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(commands.put_nowait, json.loads(line))
    # Leaves without sending a disconnect.
    os._exit(0)


async def main(url: str, options: dict) -> None:
    loop, commands = asyncio.get_running_loop(), asyncio.Queue()
    threading.Thread(target=read_commands, args=(loop, commands), daemon=True).start()
    transport = options.get("transport")
    client = Client(
        url,
        ConnectionType(transport) if transport else None,
        # Waits until the connection is restored, without a limit.
        connection_timeout=None,
        extensions=[Told()],
    )
    await client.open()
    receiving = asyncio.ensure_future(receive(client))
    for channel in options.get("subscribe", []):
        await obey(client, "subscribe", channel)
    while True:
        for name, argument in (await commands.get()).items():
            await obey(client, name, argument)
        if client.closed:
            receiving.cancel()


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}))
