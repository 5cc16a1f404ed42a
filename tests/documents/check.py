#!/usr/bin/env python3
"""Runs every command in the documents with the real binaries, and compares every JSON transcript with the output of the
server. `pages.toml` lists the commands that are run in another way or not at all, with the reason.

usage: check.py DIRECTORY_OF_THE_BINARIES [PAGE ...]

In a block of shell commands, a line that begins with `{`, `[` or `encke: ` is the output of the command before it. `< `
begins a line that the last `npx wscat` receives, and `> ` one that it sends. `id: `, `data: ` and `retry: ` begin lines of
the last `curl -N`. A comment after a command that begins with JSON shows the first line of its output. A line `...` stands
for omitted lines.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from terminal import Failed, Stream, Terminal, WebSocket
from transcript import Mismatch, Transcript

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
PAGES_AT_ONCE = 6
ADMIN = "127.0.0.1:8001"

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\s*```$", re.MULTILINE | re.DOTALL)
IS_SERVER = re.compile(
    r"(taskset -c 0 )?(cargo run --release( --)?|(target/release/)?encke)( --(?!version|help).*)?$", re.DOTALL
)
# A line of a transcript may continue on the next line, which is then indented.
JOINED = re.compile(r"^([<\[{].*)\n\s+", re.MULTILINE)
ERROR = "encke: "
EVENT_FIELDS = ("id: ", "data: ", "retry: ")
COMMENT = re.compile(r"\s+# .*$")
JSON_COMMENT = re.compile(r"\s+# ([\[{].*)$")


class Page:
    """A document and the exceptions that `pages.toml` makes for it."""

    def __init__(self, path, settings):
        self.path = path
        self.text = (REPOSITORY / path).read_text(encoding="utf-8")
        self.setup = settings.get("setup", "")
        self.words = settings.get("words", {})
        self.statuses = settings.get("statuses", [0])
        self.reason = settings.get("untested")
        tables = {name: value for name, value in settings.items() if isinstance(value, dict)}
        self._exceptions = {name: value for name, value in tables.items() if name != "words"}
        self._used = set()

    def exception(self, text):
        """Returns the settings in `pages.toml` for this command or block."""
        for start, settings in self._exceptions.items():
            if text.startswith(start):
                self._used.add(start)
                return settings
        return {}

    def blocks(self):
        for indent, language, text in FENCE.findall(self.text):
            yield language, "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))

    def unused(self):
        """Returns what `pages.toml` names, but the page does not contain any more."""
        return [*(self._exceptions.keys() - self._used), *(word for word in self.words if word not in self.text)]


def is_complete(command):
    """Whether a shell would run the command without waiting for another line."""
    checked = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, check=False)
    return checked.returncode == 0 and "here-document" not in checked.stderr and not command.endswith("\\\n")


def is_transcript(line):
    return line.startswith(("{", "[", "< ", "> ", ERROR, *EVENT_FIELDS)) or line == "..."


class Run:
    """Runs the blocks of one page in order."""

    def __init__(self, page, terminal):
        self.page, self.terminal, self.transcript = page, terminal, Transcript()
        self.output, self.socket, self.stream, self.skips = [], None, None, False

    def shell(self, text):
        command = ""
        for line in JOINED.sub(r"\1 ", text).splitlines():
            if not command and is_transcript(line):
                self.compare(line)
                continue
            command += line + "\n"
            if is_complete(command):
                if not command.lstrip().startswith("#") and command.strip():
                    self.command(command.strip())
                command = ""
        if command:
            raise Failed(f"an incomplete command: {command}")

    def command(self, command):
        exception = self.page.exception(command)
        if "untested" in exception:
            return
        shown = JSON_COMMENT.search(command)
        command = COMMENT.sub("", exception.get("instead", command)) if "\n" not in command else command
        command = self.transcript.to_actual(self.with_words(command))
        is_background = command.endswith("&") or exception.get("background", False)
        command = command.removesuffix("&").rstrip()
        if IS_SERVER.match(command):
            admin = re.search(r"--admin (\S+)", command)
            self.terminal.start_server(command, admin[1] if admin else ADMIN)
        elif command.startswith("npx wscat"):
            if self.socket:
                self.socket.disconnect()
            self.socket, self.skips = WebSocket(self.terminal, command), False
        elif command.startswith("curl -N"):
            # Without `-s`, curl shows its progress if its output is not a terminal.
            self.stream = Stream(self.terminal, command.replace("-N", "-sN", 1))
        elif is_background:
            self.terminal.start(command)
        else:
            self.output = self.terminal.run(command, exception.get("statuses", self.page.statuses))
            if shown:
                self.compare(shown[1])

    def with_words(self, text):
        for word, replacement in self.page.words.items():
            text = text.replace(word, replacement)
        return text

    def compare(self, line):
        if line == "...":
            self.skips = True
        elif line.startswith("> "):
            self.socket.send(self.transcript.to_actual(line[2:]))
        elif line.startswith("< "):
            self.receive(line[2:])
        elif line.startswith(EVENT_FIELDS):
            self.transcript.compare_line(line, self.stream.receive())
        elif not self.output:
            raise Mismatch(f"expected {line}\nreceived nothing")
        elif line.startswith(ERROR):
            self.transcript.compare_line(self.with_words(line), self.output.pop(0))
        else:
            self.transcript.compare(line, self.output.pop(0))

    def receive(self, line):
        while True:
            received = self.socket.receive()
            try:
                self.transcript.compare(line, received)
            except Mismatch:
                if not self.skips:
                    raise
            else:
                self.skips = False
                return

    def block(self, language, text):
        if language == "sh":
            self.shell(text)
            return
        exception = self.page.exception(text)
        if "file" in exception:
            (self.terminal.directory / exception["file"]).write_text(self.with_words(text), encoding="utf-8")
            self.shell(exception.get("then", ""))
        elif "compared" in exception:
            self.transcript.compare(text, "\n".join(self.terminal.run(exception["compared"])))
        elif language == "toml" and not exception:
            (self.terminal.directory / "shown.toml").write_text(self.with_words(text), encoding="utf-8")
            self.terminal.run("encke config check shown.toml")
        elif language not in ("", "text") and not exception:
            raise Failed(f"a block that is neither run nor listed in pages.toml: {text[:60]}")


def environment(binaries):
    """Returns the environment of a page's commands, with the binaries, and stand-ins for programs that a test cannot run."""
    # The server would read the variables of the tests as settings.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENCKE_")}
    path = f"{HERE / 'programs'}:{binaries}:{os.environ['PATH']}"
    return {**kept, "PATH": path, "PYTHONPATH": str(REPOSITORY / "tests/example")}


def prepare(directory, binaries):
    """Makes the directory look like a clone in which everything has been built."""
    for name in ("deploy", "loadgen", "server", "tests"):
        (directory / name).symlink_to(REPOSITORY / name)
    (directory / "node_modules").symlink_to(REPOSITORY / "tests/browser/node_modules")
    (directory / "target/release").mkdir(parents=True)
    for binary in binaries.iterdir():
        if binary.is_file() and os.access(binary, os.X_OK):
            (directory / "target/release" / binary.name).symlink_to(binary)


def check(page, binaries):
    """Returns the first problem of a page, or `None`."""
    if page.reason:
        return None
    # The page's processes may still write to the directory until the kernel has ended all of them.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        prepare(directory, binaries)
        with Terminal(directory, environment(binaries)) as terminal:
            run = Run(page, terminal)
            try:
                run.shell(page.setup)
                for language, text in page.blocks():
                    run.block(language, text)
            except (Failed, Mismatch) as problem:
                return str(problem)
    unused = page.unused()
    return f"not on the page: {sorted(unused)}" if unused else None


def main():
    binaries = Path(sys.argv[1]).resolve()
    settings = tomllib.loads((HERE / "pages.toml").read_text(encoding="utf-8"))
    documents = [str(it.relative_to(REPOSITORY)) for it in sorted(REPOSITORY.glob("server/docs/**/*.md"))]
    documents += ["README.md", "loadgen/README.md"]
    assert not settings.keys() - set(documents), settings.keys() - set(documents)
    pages = [Page(path, settings.get(path, {})) for path in sys.argv[2:] or documents]
    with ThreadPoolExecutor(PAGES_AT_ONCE) as pool:
        problems = list(pool.map(lambda page: check(page, binaries), pages))
    for page, problem in zip(pages, problems):
        if problem:
            print(f"{page.path}: {problem}\n", file=sys.stderr)
    sys.exit(any(problems))


if __name__ == "__main__":
    main()
