"""Tests of tests/example/encke_backend.py, with the same cases as encke-backend.test.mjs: python3 tests/backend/encke_backend_test.py"""

import base64
import contextlib
import hmac
import json
import pathlib
import socket
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "example"))
import encke_backend as encke  # noqa: E402

CASES = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))


class VerifyTest(unittest.TestCase):
    def test_requests_are_accepted_or_refused(self):
        base = CASES["verify"]
        for change in base["changes"]:
            case = {**base, **change, "headers": {**base["headers"], **change.get("headers", {})}}
            headers = {name: value for name, value in case["headers"].items() if value is not None}
            options = {"now": case["now"], **({"tolerance": case["tolerance"]} if "tolerance" in case else {})}
            for body in (case["body"], case["body"].encode()):
                with self.subTest(case["name"], type=type(body)):
                    if case["error"] is None:
                        self.assertEqual(encke.verify_request(case["secret"], headers, body, **options), base["accepted"])
                        continue
                    with self.assertRaises(encke.VerificationError) as raised:
                        encke.verify_request(case["secret"], headers, body, **options)
                    self.assertTrue(str(raised.exception).startswith(case["error"]), raised.exception)

    def test_bad_secrets_are_not_quoted(self):
        for secret in CASES["verify"]["bad_secrets"]:
            with self.subTest(secret), self.assertRaisesRegex(ValueError, "^secret must be `whsec_` followed by base64$"):
                encke.verify_request(secret, {}, b"")

    def test_a_parsed_body_is_refused(self):
        with self.assertRaisesRegex(TypeError, "not parsed"):
            encke.verify_request(CASES["verify"]["secret"], {}, {"test": 1})


class SignTest(unittest.TestCase):
    def test_tokens_are_the_known_ones(self):
        base = CASES["sign"]
        for case in base["tokens"]:
            token = encke.sign_token(base["secret"], case["sub"], **case["options"], now=base["now"])
            self.assertEqual(token, case["token"])
            signed, _, signature = token.rpartition(".")
            header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in signed.split("."))
            kid = {"kid": case["options"]["kid"]} if "kid" in case["options"] else {}
            self.assertEqual((header, claims), ({"alg": "HS256", "typ": "JWT", **kid}, case["claims"]))
            expected = hmac.digest(base["secret"].encode(), signed.encode(), "sha256")
            self.assertEqual(base64.urlsafe_b64decode(signature + "=="), expected)

    def test_tokens_that_encke_would_refuse_are_not_signed(self):
        for case in CASES["sign"]["refused"]:
            options = {"secret": CASES["sign"]["secret"], "sub": "alice", "ttl": 60, **case}
            error = options.pop("error")
            with self.subTest(error), self.assertRaisesRegex((TypeError, ValueError), error):
                encke.sign_token(**options)


@contextlib.contextmanager
def server(answers):
    """Runs a server that gives these answers, one for each connection. Yields its URL and a list of the requests."""
    requests, remaining = [], list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            requests.append((self.path, self.headers["content-type"], self.headers["authorization"], body))
            answer = remaining.pop(0) if remaining else [500]
            if answer is None:
                return
            status, after, text = [*answer, "", ""][:3]
            text = (text or json.dumps(CASES["publish"]["ok"] if status == 200 else {})).encode()
            self.send_response(status)
            for name, value in {"Retry-After": after, "Location": "/elsewhere", "Content-Length": len(text)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        log_message = lambda *_: None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/behind/a/proxy/", requests
        finally:
            listening.shutdown()
            thread.join()


class PublishTest(unittest.TestCase):
    def test_publishes_are_retried_with_the_same_key(self):
        for case in CASES["publish"]["cases"]:
            pauses = []
            options = {"sleep": pauses.append, "jitter": lambda: 0.5, "attempts": case.get("attempts", 6), "api_key": "k" * 16}
            for key in ("order-17", None):
                pauses.clear()
                with self.subTest(case["name"], key=key), server(case["answers"]) as (url, requests):
                    if "error" in case:
                        with self.assertRaises(encke.PublishError) as raised:
                            encke.publish("news", {"n": 1}, key=key, url=url, **options)
                        error = raised.exception
                        actual = {"status": error.status, "code": error.code, "reason": error.reason, "text": str(error)}
                        self.assertEqual(actual, case["error"])
                    else:
                        self.assertEqual(encke.publish("news", {"n": 1}, key=key, url=url, **options), CASES["publish"]["ok"])
                    self.assertEqual(pauses, case["pauses"])
                    self.assertEqual(len(requests), len(case["answers"]))
                    path, media_type, authorization, body = requests[0]
                    self.assertEqual(requests, [requests[0]] * len(requests))
                    self.assertEqual((path, media_type), ("/behind/a/proxy/api/publish", "application/json"))
                    self.assertEqual(authorization, "Bearer " + "k" * 16)
                    sent = json.loads(body)
                    self.assertEqual(sent, {"channel": "news", "data": {"n": 1}, "key": key or sent["key"]})
                    self.assertTrue(0 < len(sent["key"]) <= 64)

    def test_random_keys_differ(self):
        with server([[200], [200]]) as (url, requests):
            for _ in range(2):
                encke.publish("news", 1, url=url)
        self.assertNotEqual(*(json.loads(request[3])["key"] for request in requests))

    def test_no_response(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            # Only the superuser could listen on port 2.
            for port, timeout, reason in ((silent.getsockname()[1], 0.02, "timed out"), (2, 60, "refused")):
                pauses = []
                options = {"timeout": timeout, "attempts": 2, "sleep": pauses.append, "jitter": lambda: 1}
                with self.subTest(reason), self.assertRaises(encke.PublishError) as raised:
                    encke.publish("news", 1, key="k", url=f"http://127.0.0.1:{port}", **options)
                error = raised.exception
                self.assertEqual((error.status, error.code, error.key, pauses), (None, None, "k", [0.5]))
                self.assertRegex(str(error), f"^publish failed: no response: .*{reason}")
                self.assertIsInstance(error.__cause__, OSError)

    def test_bad_arguments_are_refused_at_once(self):
        with self.assertRaisesRegex(ValueError, "url must begin with http"):
            encke.publish("news", 1, url="localhost:8001")


if __name__ == "__main__":
    unittest.main()
