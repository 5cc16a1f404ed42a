"""backend.py SECRET

A backend built on tests/example/encke_backend.py. Prints {"port"}, then {"verified": body} for each request from Encke and {"refused":
reason} for each other one. Reads commands, one JSON object per line, and prints {"done": result} or {"failed": error} for each:
{"sign": [secret, sub], "options"} and {"publish": [channel, data], "options"}.
"""

import json
import os
import pathlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "example"))
import encke_backend as encke  # noqa: E402

SECRET = sys.argv[1]
ANSWERS = {"/connect": {"token": True}, "/subscribe": {"allow": True}, "/call": {"data": "called"}}


def emit(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # Send each response in one piece.

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            emit(verified=encke.verify_request(SECRET, self.headers, body))
            self.answer(200, ANSWERS.get(self.path, {}))
        except encke.VerificationError as error:
            emit(refused=str(error))
            self.answer(401, {})

    def answer(self, status, answer):
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", len(text))
        self.end_headers()
        self.wfile.write(text)

    log_message = lambda *_: None


def run(command):
    options = command.get("options", {})
    if "sign" in command:
        return encke.sign_token(*command["sign"], **options)
    return encke.publish(*command["publish"], **options)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
emit(port=server.server_port)
for line in sys.stdin:
    try:
        emit(done=run(json.loads(line)))
    except encke.PublishError as error:
        emit(failed={"status": error.status, "code": error.code, "text": str(error)})
os._exit(0)  # Python would wait for the threads of open connections.
