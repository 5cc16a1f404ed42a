"""The backend of a chat on Encke, in Python's standard library: python3 tests/example/backend.py

It signs users in and serves the page. Encke calls it to authenticate clients, forwards calls from pages, and reports the sessions of users.
"""

import hmac
import json
import os
import pathlib
import re
import signal
import sqlite3
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import encke_backend

PORT = 3000
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # the secret in encke.toml
EVENTS = "target/state/events"
OWN_KEY = hmac.digest(SECRET.encode(), b"cookies and tokens", "sha256")
PAGE = pathlib.Path(__file__).with_name("index.html")
SIGN_IN = """<!doctype html><title>Chat</title>
<form action="/login" method="post">Your name: <input name="name" pattern="\\w{1,20}" required autofocus> <button>Enter</button></form>"""


def sign(*parts):
    mac = hmac.digest(OWN_KEY, ".".join(parts).encode(), "sha256")
    return ".".join([*parts[1:], mac.hex()])


def verify(kind, signed):
    """Returns the arguments of sign(kind, ...) after the kind, or None if the signature is invalid."""
    parts = signed.split(".")[:-1]
    return parts if hmac.compare_digest(sign(kind, *parts).encode(), signed.encode()) else None


class Events:
    """Events from Encke, in a file that outlives this process. Encke sends an event again if it gets no response; each is stored once."""

    COLUMNS = ["id", "event", "number", "session", "user", "reason"]

    def __init__(self, path):
        self.lock = threading.Lock()
        self.file = sqlite3.connect(path, check_same_thread=False)
        self.file.execute(f"CREATE TABLE IF NOT EXISTS events ({','.join(self.COLUMNS)}, UNIQUE (id))")

    def add(self, events):
        """Returns once the events are on disk. Only then may Encke delete them."""
        rows = [[event.get(column) for column in self.COLUMNS] for event in events]
        with self.lock, self.file:
            self.file.executemany("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?)", rows)

    def all(self):
        with self.lock:
            rows = self.file.execute("SELECT * FROM events ORDER BY rowid").fetchall()
        return [dict(zip(self.COLUMNS, row)) for row in rows]

    def gone(self):
        """Returns the events of sessions that can no longer be resumed."""
        return [event for event in self.all() if event["event"] in ("session.expired", "session.closed")]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # Send each response in one piece.

    def do_GET(self):
        user = self.user()
        if self.path == "/":
            self.answer(200, PAGE.read_bytes() if user else SIGN_IN.encode(), {"Content-Type": "text/html; charset=utf-8"})
        elif self.path == "/token" and user:
            # The page presents this token to Encke, which presents it to us (see authenticate). It is valid
            # for five minutes.
            self.answer(200, sign("token", user, str(int(time.time()) + 300)).encode())
        elif self.path in ("/gone", "/events"):
            self.answer_json(events.gone() if self.path == "/gone" else events.all())
        else:
            self.answer(401 if self.path == "/token" else 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/login":
            return self.log_in(urllib.parse.parse_qs(body.decode()).get("name", [""])[0])
        try:
            request = encke_backend.verify_request(SECRET, self.headers, body)
        except encke_backend.VerificationError as error:
            return self.answer(401, str(error).encode())
        if self.path == "/encke/connect":
            self.answer_json(authenticate(request.get("token", "")))
        elif self.path == "/encke/call":
            self.answer_json(call(request["method"]))
        elif self.path == "/encke/events":
            events.add(request["events"])
            self.answer(200)
        else:
            self.answer(404)

    def log_in(self, name):
        if not re.fullmatch(r"\w{1,20}", name):
            return self.answer(400)
        # A real backend would ask for a password.
        cookie = f"sid={urllib.parse.quote(sign('sid', name))}; HttpOnly; SameSite=Lax; Path=/"
        self.answer(303, headers={"Location": "/", "Set-Cookie": cookie})

    def user(self):
        sid = re.search(r"(?:^|; )sid=([^;]*)", self.headers.get("cookie", ""))
        return sid and (verify("sid", urllib.parse.unquote(sid[1])) or [None])[0]

    def answer_json(self, answer):
        self.answer(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def answer(self, status, body=b"", headers={}):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    log_message = lambda *_: None


def authenticate(token):
    user, until = verify("token", token) or (None, "0")
    if time.time() > int(until):
        return {"error": {"code": "unauthorized", "message": "sign in first"}}
    return {"sub": user, "exp": int(time.time()) + 3600, "channels": {"chat": ["subscribe", "publish", "presence"]}}


def call(method):
    if method == "gone":
        return {"data": events.gone()[-10:]}
    return {"error": {"code": "no_method", "message": f"unknown method: {method}"}}


if __name__ == "__main__":
    events = Events(EVENTS)
    ThreadingHTTPServer.request_queue_size = 128  # Many clients may connect simultaneously.
    print(f"http://127.0.0.1:{PORT}", flush=True)
    # Python may lose a KeyboardInterrupt that is raised in a callback. Events are already on disk.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
