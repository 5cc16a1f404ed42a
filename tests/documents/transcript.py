"""Compares JSON that a document shows with JSON that a server sent.

In a document, `...` stands for more fields or elements, or for any value, and `…` for the rest of an id. Ids, epochs and
times differ between runs. Where a page shows an id for the first time, the id that the server sent is remembered; from then
on, the documented id stands for it.
"""

import json

# Fields whose strings the server chooses.
IDS = {"epoch", "channel_epoch", "session", "resume", "id", "clientId"}
# Fields whose numbers depend on the time.
TIMES = {"at_ms", "due_in_ms", "retry_ms", "since_ms", "iat", "exp"}
ANY = "..."


class Mismatch(Exception):
    """The output of the server differs from the document."""


class Transcript:
    """Compares the transcripts of one page, and remembers the ids."""

    def __init__(self):
        self._ids = {}

    def to_actual(self, text):
        """Replaces the document's ids in a command or message by those of the server."""
        for documented in sorted(self._ids, key=len, reverse=True):
            text = text.replace(documented, self._ids[documented])
        return text

    def compare(self, documented, actual):
        try:
            received = json.loads(actual)
        except json.JSONDecodeError:
            raise Mismatch(f"expected {documented}\nreceived {actual}") from None
        ids = dict(self._ids)
        problem = self._difference(_parse(documented), received, "")
        if problem:
            self._ids = ids
            raise Mismatch(f"{problem}\nexpected {documented}\nreceived {actual}")

    def compare_line(self, documented, actual):
        """Compares lines of text, such as `id: ...`, which may end in JSON."""
        field, _, shown = documented.partition(": ")
        received_field, _, received = actual.partition(": ")
        if shown.startswith("{"):
            self.compare(shown, received)
        elif field != received_field or self._difference_of_strings(shown, received, field):
            raise Mismatch(f"expected {documented}\nreceived {actual}")

    def _difference(self, documented, actual, name):
        """Returns the first difference, if there is one. `name` is the name of their field."""
        if documented == ANY:
            return None
        if isinstance(documented, dict) and isinstance(actual, dict):
            return self._difference_of_fields(documented, actual)
        if isinstance(documented, list) and isinstance(actual, list):
            is_open = documented[-1:] == [ANY]
            shown = documented[:-1] if is_open else documented
            if len(actual) < len(shown) or (len(actual) > len(shown) and not is_open):
                return f"{name}: {len(actual)} elements"
            differences = (self._difference(*pair, name) for pair in zip(shown, actual))
            return next(filter(None, differences), None)
        if isinstance(documented, str) and isinstance(actual, str):
            return self._difference_of_strings(documented, actual, name)
        if name in TIMES and isinstance(actual, int | float):
            return None
        return None if documented == actual else f"{name}: {actual}"

    def _difference_of_fields(self, documented, actual):
        missing = documented.keys() - actual.keys() - {ANY}
        extra = set() if ANY in documented else actual.keys() - documented.keys()
        if missing or extra:
            return f"missing fields: {sorted(missing)}, fields not shown: {sorted(extra)}"
        differences = (self._difference(documented[name], actual[name], name) for name in documented if name != ANY)
        return next(filter(None, differences), None)

    def _difference_of_strings(self, documented, actual, name):
        if documented not in self._ids and (name in IDS or "…" in documented):
            self._ids[documented] = actual
        return None if self._ids.get(documented, documented) == actual else f"{name}: {actual}"


def _parse(documented):
    # Prose may follow on the same line.
    value, _end = json.JSONDecoder().raw_decode(_without_ellipses(documented))
    return value


def _without_ellipses(text):
    """Replaces each `...` by a field or a value that is valid JSON."""
    result, brackets, in_string, i = "", [], False, 0
    while i < len(text):
        char = text[i]
        if in_string:
            end = i + 2 if char == "\\" else i + 1
            in_string = char != '"'
        elif text.startswith(ANY, i):
            is_value = result.rstrip().endswith(":") or brackets[-1:] == ["["]
            result += f'"{ANY}"' if is_value else f'"{ANY}":0'
            i += len(ANY)
            continue
        else:
            end = i + 1
            in_string = char == '"'
            if char in "[{":
                brackets.append(char)
            elif char in "]}":
                brackets.pop()
        result += text[i:end]
        i = end
    return result
