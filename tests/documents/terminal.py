"""A shell that runs the commands of a page, in namespaces of its own: ports such as 8000 are free there, `pkill` reaches
only the page's processes, and all of them end with the shell.
"""

import os
import queue
import re
import subprocess
import threading
import time
from pathlib import Path

# Maximum time of a command, or until the next expected line, in seconds. Test machines may be busy.
LIMIT = 120
NAMESPACES = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
# A server is ready when it accepts connections.
AWAIT_LISTENER = """until (exec 3<>/dev/tcp/{host}/{port}) 2>/dev/null; do
  kill -0 {server} 2>/dev/null || {{ echo ended; break; }}
  sleep 0.05
done"""


class Failed(Exception):
    """A command did not do what the document says."""


class Terminal:
    def __init__(self, directory, environment):
        self.directory = Path(directory)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        shell = [*NAMESPACES, "bash", "--norc"]
        self._shell = subprocess.Popen(shell, **pipes, text=True, cwd=directory, env=environment)
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._commands = 0
        self._servers = {}  # Process ids by address.
        self.run("ip link set lo up")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._shell.kill()
        self._shell.wait()

    def _read(self):
        for line in self._shell.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def run(self, command, statuses=(0,)):
        """Runs a command to its end, and returns the lines that it printed."""
        self._commands += 1
        end = f"end-of-command-{self._commands}"
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n{end} %s\\n' $?\n")
        self._shell.stdin.flush()
        printed = []
        while True:
            try:
                line = self._lines.get(timeout=LIMIT)
            except queue.Empty:
                raise Failed(f"not within {LIMIT} s: {command}\n" + "\n".join(printed)) from None
            if line is None:
                raise Failed(f"the shell has ended: {command}\n" + "\n".join(printed))
            if line.startswith(end):
                break
            printed.append(line)
        status = int(line.split()[1])
        output = [line for line in printed if line]
        if status not in statuses:
            raise Failed(f"status {status}: {command}\n" + "\n".join(output))
        return output

    def start(self, command):
        """Starts a command in the background. Returns the file with its output."""
        self._commands += 1
        output = self.directory / f"output-{self._commands}"
        output.touch()
        self.run(f"{command} >{output.name} 2>&1 &")
        return output

    def start_server(self, command, address):
        """Starts a server, which replaces an earlier one at this address, and waits until it accepts connections."""
        if address in self._servers:
            self.run(f"kill {self._servers[address]} 2>/dev/null; wait {self._servers[address]}", statuses=range(256))
        output = self.start(command)
        self._servers[address] = self.run("echo $!")[0]
        host, port = address.rsplit(":", 1)
        if self.run(AWAIT_LISTENER.format(host=host, port=port, server=self._servers[address])) != []:
            raise Failed(f"the server has ended: {command}\n{output.read_text()}")


class Stream:
    """The lines that a command in the background prints."""

    def __init__(self, terminal, command):
        self._command = command
        self._output = terminal.start(command)
        self._count = 0

    def receive(self):
        """Returns the next line that is not empty."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            lines = [line for line in self._output.read_text(encoding="utf-8").split("\n")[:-1] if line]
            if len(lines) > self._count:
                self._count += 1
                return lines[self._count - 1]
            time.sleep(0.02)
        raise Failed(f"nothing received within {LIMIT} s: {self._command}")


class WebSocket(Stream):
    """A connection of `npx wscat`, whose input is a named pipe."""

    def __init__(self, terminal, command):
        pipe = terminal.directory / f"input-{time.monotonic_ns()}"
        os.mkfifo(pipe)
        super().__init__(terminal, f"{command} <{pipe.name}")
        self._input = open(pipe, "w", encoding="utf-8")

    def receive(self):
        # wscat prints its prompt before each line that it receives later.
        return re.sub("^(> )+", "", super().receive())

    def send(self, line):
        self._input.write(line + "\n")
        self._input.flush()

    def disconnect(self):
        self._input.close()
