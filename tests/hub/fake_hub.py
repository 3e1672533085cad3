"""A small Hub on the loopback address: repositories in memory, and what creating, committing and reading need."""

import base64
import json
import re
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import unquote, urlsplit

TOKENS = {"writer": 200, "reader": 403}

API = "/api/(?:models|spaces)/([^/]+/[^/]+)"


class FakeHub:
    """Runs while its block does.

    Attributes:
        repositories: name → branch → path → content.
        kinds: name → type of the repository, and the SDK of a Space.
        commits: of all repositories, how many there were.
        holds_commits: whether commits are received and never made.
        held: set once one is.
    """

    def __init__(self):
        self.repositories: dict[str, dict[str, dict[str, bytes]]] = {}
        self.private: dict[str, bool] = {}
        self.kinds: dict[str, tuple[str, str | None]] = {}
        self.commits = 0
        self.holds_commits = False
        self.held = Event()

    def __enter__(self) -> "FakeHub":
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": self}))
        Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


class Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status: int, content: bytes | dict = b"", **headers: str) -> None:
        if isinstance(content, dict):
            content = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = unquote(urlsplit(self.path).path)
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        status = TOKENS.get(self.headers.get("Authorization", "").removeprefix("Bearer "), 401)
        if status != 200:
            return self.answer(status, {"error": "refused"})
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        name, action, branch = re.fullmatch(rf"{API}/(preupload|commit|branch)/(.+)", path).groups()
        if name not in self.hub.repositories:
            return self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        if action == "branch":
            self.hub.repositories[name].setdefault(branch, {})
            return self.answer(200, {})
        if action == "preupload":
            files = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                     for file in json.loads(body)["files"]]  # fmt: skip
            return self.answer(200, {"files": files})
        if self.hub.holds_commits:
            return self.hub.held.set()
        return self.commit(name, branch, body)

    def create(self, settings: dict) -> None:
        name = "/".join(filter(None, (settings.get("organization"), settings["name"])))
        if name in self.hub.repositories:
            return self.answer(409, {"error": "exists", "url": f"{self.hub.address}/{name}"})
        self.hub.repositories[name] = {"main": {}}
        self.hub.kinds[name] = settings.get("type", "model"), settings.get("sdk")
        self.hub.private[name] = bool(settings.get("private")) or settings.get("visibility") == "private"
        self.answer(200, {"url": f"{self.hub.address}/{name}", "name": name})

    def commit(self, name: str, branch: str, body: bytes) -> None:
        lines = [json.loads(line) for line in body.splitlines()]
        files = [line["value"] for line in lines if line["key"] == "file"]
        self.hub.repositories[name][branch] |= {f["path"]: base64.b64decode(f["content"]) for f in files}
        self.hub.commits += 1
        oid = f"{self.hub.commits:040x}"
        url = f"{self.hub.address}/{name}/commit/{oid}"
        self.answer(200, {"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""})

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            name, branch, file = match.groups()
            files = self.branch(name, branch)
            if file not in files:
                return self.answer(404, {}, X_Error_Code="EntryNotFound", X_Repo_Commit="0" * 40)
            etag = f'"{sha1(files[file]).hexdigest()}"'
            return self.answer(200, files[file], ETag=etag, X_Repo_Commit="0" * 40)
        if match := re.match(API, path):
            files = self.branch(match[1], "main")
            if "/tree/" in path:
                listed = [{"type": "file", "path": file, "size": len(content), "oid": "0"}
                          for file, content in files.items()]  # fmt: skip
                return self.answer(200, json.dumps(listed).encode())
            return self.answer(200, {"id": match[1], "sha": "0" * 40, "siblings": [{"rfilename": f} for f in files]})
        return self.answer(404, {})

    do_HEAD = do_GET

    def branch(self, name: str, branch: str) -> dict[str, bytes]:
        branches = self.hub.repositories.get(name, {})
        return branches.get(branch, branches.get("main", {}))
