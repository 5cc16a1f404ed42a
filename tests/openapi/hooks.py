"""Hooks of schemathesis: facts about the server that the document cannot express, and requests that must not be sent."""

import atexit
import itertools
import json
import os

import schemathesis

# Sessions that must survive the test, and sessions that may be ended instead.
PROTECTED = os.environ.get("ENCKE_KEPT", "").split(",")
DISPOSABLE = itertools.cycle(os.environ.get("ENCKE_DOOMED", "").split(","))

# A user that must survive the test, and one that may be revoked instead.
PROTECTED_USER = "alice"
DISPOSABLE_USER = "mallory"

# Maximum lengths in bytes: channel.name_bytes, and those for keys, users and reminders. A schema can only
# count characters.
NAME_BYTES = 255
KEY_BYTES = 64
USER_BYTES = 255
REMINDER_BYTES = 255

# Maximum number of channels with `sort`, which supports a single page only.
MAX_SORTED = 100

# Names of the configured webhooks.
WEBHOOKS = ["backend"]

# Channel in which a test counts every message.
COUNTED_CHANNEL = "news"


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Forbids undocumented properties: the document permits additional ones only for future versions.

    The document covers servers with and without API keys. This removes the latter case: the server has keys.
    """
    raw_schema["security"].remove({})
    # The document does not contain the names of webhooks.
    raw_schema["components"]["schemas"]["WebhookName"]["enum"] = WEBHOOKS
    close(raw_schema["components"]["schemas"])


def close(value):
    if isinstance(value, dict):
        if "properties" in value:
            value.setdefault("additionalProperties", False)
        for inner in value.values():
            close(inner)
    elif isinstance(value, list):
        for inner in value:
            close(inner)


@schemathesis.hook
def filter_case(context, case):
    """Drops cases that the schema allows and the server rejects: names and keys that are too long, and conflicting parameters. Also drops reminders on COUNTED_CHANNEL."""
    body = case.body if isinstance(case.body, dict) else {}
    publish = body.get("publish")
    reminder_channel = publish.get("channel") if isinstance(publish, dict) else None
    if reminder_channel == COUNTED_CHANNEL:
        return False
    # A schema accepts 30.0 as an integer.
    since = body.get("since")
    if isinstance(since, dict) and isinstance(since.get("offset"), float):
        return False
    # The schema of a parameter cannot depend on other parameters.
    query = case.query or {}
    limit = str(query.get("limit", ""))
    if "sort" in query and ("cursor" in query or limit.isdigit() and int(limit) > MAX_SORTED):
        return False
    texts = [
        ((case.path_parameters or {}).get("name"), NAME_BYTES),
        ((case.path_parameters or {}).get("user"), USER_BYTES),
        ((case.path_parameters or {}).get("key"), REMINDER_BYTES),
        (body.get("channel"), NAME_BYTES),
        (reminder_channel, NAME_BYTES),
        (body.get("key"), KEY_BYTES),
    ]
    return all(len(text.encode()) <= longest for text, longest in texts if isinstance(text, str))


@schemathesis.hook
def before_call(context, case, kwargs):
    """Replaces sessions and users that must survive the test: links can lead to any of them."""
    leaves = case.method == "DELETE" or case.path.endswith("/unsubscribe")
    if leaves and case.path_parameters.get("id") in PROTECTED:
        case.path_parameters["id"] = next(DISPOSABLE)
    if case.method == "DELETE" and case.path_parameters.get("user") == PROTECTED_USER:
        case.path_parameters["user"] = DISPOSABLE_USER


# Number of responses by operation and status.
SEEN = {}


@schemathesis.hook
def after_call(context, case, response):
    if case.method == case.operation.method.upper():
        statuses = SEEN.setdefault(case.operation.definition.raw["operationId"], {})
        statuses[response.status_code] = statuses.get(response.status_code, 0) + 1


@atexit.register
def write_seen():
    if SEEN:
        with open("seen.json", "w", encoding="utf-8") as file:
            json.dump(SEEN, file)
