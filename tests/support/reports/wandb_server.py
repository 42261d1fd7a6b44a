"""A server on this machine that takes W&B runs: as much of GraphQL and of the file stream as wandb-core 0.31 asks for.

It keeps what it is told: ``runs[name]`` has the variables with which the run was upserted, the rows of its history, its
summary, its exit code and the files that were uploaded. What it cannot answer is listed in ``unknown``.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

ENTITY = "somebody"
VIEWER = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "a@b.c", "flags": "{}", "teams": {"edges": []}}
STREAM = re.compile(r"/files/([^/]+)/([^/]+)/([^/]+)/file_stream")
TELEMETRY = "/sdk/otel/"  # of the client itself
HISTORY, SUMMARY = "wandb-history.jsonl", "wandb-summary.json"


@dataclass
class ReceivedRun:
    """What a client has sent of one run."""

    variables: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """The run's config as plain values, as the web page shows it."""
        tree = json.loads(self.variables.get("config") or "{}")
        return {key: node["value"] for key, node in tree.items() if key != "_wandb"}


class Handler(BaseHTTPRequestHandler):
    """Answers requests out of and into ``self.server.standin``."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""

    @property
    def body(self) -> bytes:
        """What the client sends with the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, value: object, status: int = 200) -> None:
        """Send a value as JSON."""
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        """GraphQL and the stream of a run's rows."""
        standin, body = self.server.standin, self.body
        if self.path == "/graphql":
            request = json.loads(body)
            self.answer({"data": standin.graphql(request["query"], request.get("variables") or {})})
        elif match := STREAM.fullmatch(self.path):
            standin.stream(unquote(match[3]), json.loads(body))
            self.answer({})
        elif self.path.startswith(TELEMETRY):
            self.answer({})
        else:
            self.unknown()

    def do_PUT(self) -> None:
        """The content of a file."""
        run, _, name = unquote(self.path.removeprefix("/upload/")).partition("/")
        self.server.standin.runs[run].files[name] = self.body
        self.answer({})

    def do_GET(self) -> None:
        """Nothing is read back."""
        self.unknown()

    def unknown(self) -> None:
        """Refuse, and remember what was asked."""
        self.server.standin.unknown.append(f"{self.command} {self.path}")
        self.answer({}, status=404)


class Server(ThreadingHTTPServer):
    """Threads that end with the test; a client that goes away is no error."""

    daemon_threads = True

    def handle_error(self, *arguments: object) -> None:
        """Print nothing."""


class StandIn:
    """The server's memory and its answers."""

    def __init__(self):
        self.runs: dict[str, ReceivedRun] = {}
        self.views: list[dict[str, Any]] = []
        self.unknown: list[str] = []
        self.url = ""

    def graphql(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Answer one operation by its name; with nothing if it is not known."""
        operation = re.search(r"(?:query|mutation)\s+(\w+)", query)
        name = operation[1] if operation else query
        answer = getattr(self, f"on_{name}", None)
        if answer is None:
            self.unknown.append(name)
            return {}
        return answer(variables)

    def on_Viewer(self, variables: dict[str, Any]) -> dict[str, Any]:
        return {"viewer": VIEWER}

    on_GetDefaultEntity = on_Viewer

    def on_ServerFeaturesQuery(self, variables: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    def on_RunResumeStatus(self, variables: dict[str, Any]) -> dict[str, Any]:
        return {"model": None}

    def on_UpsertBucket(self, variables: dict[str, Any]) -> dict[str, Any]:
        name = variables.get("name") or next(iter(self.runs))
        new = name not in self.runs
        run = self.runs.setdefault(name, ReceivedRun())
        run.variables |= {key: value for key, value in variables.items() if value is not None}
        entity = {"id": "e", "name": ENTITY}
        bucket = {
            **dict.fromkeys(("description", "sweepName")),
            "id": name,
            "name": name,
            "displayName": run.variables.get("displayName") or name,
            "config": run.variables.get("config") or "{}",
            "project": {"id": "p", "name": run.variables.get("project"), "entity": entity},
            "historyLineCount": 0,
        }
        return {"upsertBucket": {"bucket": bucket, "inserted": new}}

    def on_CreateRunFiles(self, variables: dict[str, Any]) -> dict[str, Any]:
        run = variables["run"]
        files = [{"name": name, "uploadUrl": f"{self.url}/upload/{run}/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": files}}

    def on_CreateArtifact(self, variables: dict[str, Any]) -> dict[str, Any]:
        latest = {"id": "a", "versionIndex": 0}
        sequence = {"id": "s", "latestArtifact": latest}
        return {"createArtifact": {"artifact": {"id": "a", "state": "COMMITTED", "artifactSequence": sequence}}}

    def on_UpsertView2(self, variables: dict[str, Any]) -> dict[str, Any]:
        self.views.append(variables)
        return {"upsertView": {"view": {"id": "Vmlldzox", "name": variables["name"]}, "inserted": True}}

    def on_ArtifactType(self, variables: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"artifact": None}}

    def stream(self, name: str, message: dict[str, Any]) -> None:
        """Take in a chunk of a run's stream."""
        run = self.runs[name]
        for file, part in (message.get("files") or {}).items():
            if file == HISTORY:
                run.rows[part["offset"] :] = map(json.loads, part["content"])
            if file == SUMMARY:
                run.summary = json.loads(part["content"][-1])
        if message.get("complete"):
            run.exit_code = message.get("exitcode")


@contextmanager
def wandb_server() -> Iterator[StandIn]:
    """Context with a server at ``.url``, on a free port."""
    server = Server(("127.0.0.1", 0), Handler)
    server.standin = StandIn()
    server.standin.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.standin
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
