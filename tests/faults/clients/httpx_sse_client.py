"""httpx_sse_client.py URL

Reads an event stream with httpx-sse as its README recommends: in a loop, with the id of the last event. Prints the data of each event.
Exits when its standard input is closed.
"""

import os
import sys
import threading
import time

import httpx
from httpx_sse import SSEError, connect_sse


def exit_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def read_stream(client: httpx.Client, url: str, last_id: str) -> str:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    try:
        with connect_sse(client, "GET", url, headers=headers) as source:
            for event in source.iter_sse():
                last_id = event.id or last_id
                if event.data:
                    print(event.data, flush=True)
    except (httpx.TransportError, SSEError) as error:
        print(repr(error), file=sys.stderr, flush=True)
    return last_id


threading.Thread(target=exit_with_stdin, daemon=True).start()
last_id = ""
# Set no read timeout: a stream may be silent for any length of time.
with httpx.Client(timeout=httpx.Timeout(10, read=None)) as client:
    while True:
        last_id = read_stream(client, sys.argv[1], last_id)
        time.sleep(1)
