"""Functions for a backend of Encke: verify requests from Encke, sign tokens for clients, publish messages.

Copy this file into your backend. It needs Python 3.9 or newer, and only the standard library.

SPDX-License-Identifier: MIT OR Apache-2.0
"""

import base64
import hmac
import http.client
import json
import random
import re
import secrets
import time
import urllib.parse
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

RETRIED_STATUSES = (429, 502, 503, 504)
FIRST_PAUSE = 0.5  # Seconds before the second attempt. Each later pause is twice as long.
MAX_PAUSE = 30.0


class VerificationError(Exception):
    """The request is not from Encke, or is too old. Answer it with status 401."""


class PublishError(Exception):
    """The publish failed. Unless the server refused it, it may still take effect: to try again later without a duplicate, use its `key`.

    `status` is the HTTP status, `code` is Encke's error code, and `reason` is its message. `status` is None if there was no response, and
    `code` is None if the response has none.
    """

    def __init__(self, status: Optional[int], code: Optional[str], reason: str, key: str):
        super().__init__(f"publish failed: {status or 'no response'}{f' {code}' if code else ''}: {reason}")
        self.status, self.code, self.reason, self.key = status, code, reason, key


def verify_request(
    secret: str, headers: Mapping[str, str], body: Union[bytes, str], *, tolerance: float = 300, now: Optional[float] = None
) -> Any:
    """Verifies the signature of a webhook or hook request (Standard Webhooks), and returns its parsed body.

    `secret` is `webhook.secret` or `backend.secret` of Encke's configuration, and `body` is the body as received. The time of the
    request may differ from the clock by `tolerance` seconds. Within this time, somebody who has read the request can send it again, so
    store the `id` of each event. Raises VerificationError.
    """
    if not isinstance(body, (bytes, str)):
        raise TypeError("body must be the request's body as received, not parsed")
    key = _webhook_key(secret)
    fields = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (_header(fields, name) for name in ("webhook-id", "webhook-timestamp", "webhook-signature"))
    if not re.fullmatch("[0-9]{1,15}", timestamp):
        raise VerificationError("webhook-timestamp is not a number of seconds since 1970")
    age = (time.time() if now is None else now) - int(timestamp)
    if abs(age) > tolerance:
        difference = f"its time differs from this machine's by {abs(age):.0f} s"
        raise VerificationError(f"the request is too {'old' if age > 0 else 'new'}: {difference}")
    signed = f"{id}.{timestamp}.".encode() + (body.encode() if isinstance(body, str) else body)
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    # The header has several signatures, separated by spaces, while the sender replaces its secret.
    if not any(hmac.compare_digest(expected, given) for given in signatures.split(" ")):
        raise VerificationError("no signature matches: the secret differs from Encke's, or the body was changed")
    return json.loads(body)


def sign_token(
    secret: str,
    sub: str,
    *,
    ttl: float,
    channels: Optional[Mapping[str, Sequence[str]]] = None,
    join: Sequence[str] = (),
    audience: Optional[str] = None,
    kid: Optional[str] = None,
    now: Optional[float] = None,
) -> str:
    """Returns a token (JWT, HS256) with which the user `sub` can connect for the next `ttl` seconds.

    `secret` is `auth.secret` of Encke's configuration, or the secret of the key `kid` in `auth.keys`. `channels` maps channels to
    permissions: `{"chat.*": ["subscribe", "publish", "presence"]}`. A new session joins the channels in `join`, for which the token must
    have the permission `subscribe`. `audience` is `auth.audience`.
    """
    if len(secret.encode()) < 32:
        raise ValueError("secret must be at least 32 bytes long")
    if not 0 < len(sub.encode()) <= 255:
        raise ValueError("sub must be 1 to 255 bytes long")
    if not ttl > 0:
        raise ValueError("ttl must be a positive number of seconds")
    if isinstance(join, str):
        raise TypeError("join must be a list of channels")
    now = time.time() if now is None else now
    # The fraction of `iat` distinguishes a new token from one that was revoked in the same second.
    claims = {"sub": sub, "aud": audience, "iat": now, "exp": int(now + ttl), "channels": dict(channels or {}), "join": list(join)}
    header = {"alg": "HS256", "typ": "JWT", "kid": kid}
    parts = ({name: value for name, value in part.items() if value is not None} for part in (header, claims))
    signed = ".".join(_base64url(json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode()) for part in parts)
    return f"{signed}.{_base64url(hmac.digest(secret.encode(), signed.encode(), 'sha256'))}"


def publish(
    channel: str,
    data: Any,
    *,
    key: Optional[str] = None,
    url: str = "http://127.0.0.1:8001",
    api_key: Optional[str] = None,
    timeout: float = 10,
    attempts: int = 6,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = random.random,
) -> Dict[str, Any]:
    """Publishes a message through the admin listener at `url`, and returns its position: `{"offset", "epoch"}`.

    Failed connections, timeouts and the statuses 429, 502, 503 and 504 are retried, up to `attempts` attempts in total, unless
    `Retry-After` asks for a pause of more than MAX_PAUSE. `key` (up to 64 bytes) identifies the message: the channel publishes it once,
    as long as it remembers the key (`channel.history_age`). The default is a random key for each call. `timeout` is how long to wait for
    the server, in seconds. Raises PublishError.
    """
    key = secrets.token_hex(16) if key is None else key
    body = json.dumps({"channel": channel, "data": data, "key": key}, allow_nan=False).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {api_key}"} if api_key else {})}
    base = urllib.parse.urlsplit(url)
    if base.scheme not in ("http", "https"):
        raise ValueError("url must begin with http:// or https://")
    connection_class = http.client.HTTPSConnection if base.scheme == "https" else http.client.HTTPConnection
    # Each request opens the connection again. Unlike urllib.request, http.client follows no redirects.
    connection = connection_class(base.netloc, timeout=timeout)
    attempt, longest = 1, FIRST_PAUSE
    while True:
        retry_after, cause = 0, None
        try:
            connection.request("POST", base.path.rstrip("/") + "/api/publish", body, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            cause, failure = error, PublishError(None, None, str(error) or type(error).__name__, key)
        else:
            answer = _object(text)
            if response.status == 200 and "offset" in answer:
                return answer
            failure = _failure(response.status, answer, text, key)
            if response.status not in RETRIED_STATUSES:
                raise failure
            # A date instead of a number of seconds is ignored.
            after = response.headers.get("retry-after") or ""
            retry_after = int(after) if re.fullmatch("[0-9]{1,9}", after) else 0
        finally:
            connection.close()
        if attempt >= attempts or retry_after > MAX_PAUSE:
            raise failure from cause
        sleep(retry_after + longest * (1 + jitter()) / 2)
        attempt, longest = attempt + 1, min(MAX_PAUSE, longest * 2)


def _webhook_key(secret: str) -> bytes:
    encoded = re.fullmatch("whsec_([A-Za-z0-9+/]+)={0,2}", secret)
    if not encoded or len(encoded[1]) % 4 == 1:
        raise ValueError("secret must be `whsec_` followed by base64")
    return base64.b64decode(encoded[1] + "=" * (-len(encoded[1]) % 4))


def _header(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name)
    if not value or not value.isascii():
        raise VerificationError(f"{name} is {'not ASCII' if value else 'missing'}")
    return value


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _object(text: bytes) -> Dict[str, Any]:
    """Parses a JSON object. Any other text counts as an empty one."""
    try:
        parsed = json.loads(text)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _failure(status: int, answer: Mapping[str, Any], text: bytes, key: str) -> PublishError:
    # A response without an error object is from another server, such as a proxy.
    error = answer["error"] if isinstance(answer.get("error"), dict) else {}
    reason = error.get("message") or text[:200].decode(errors="replace") or "empty response"
    return PublishError(status, error.get("code"), reason, key)
