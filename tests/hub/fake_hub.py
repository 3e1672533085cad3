"""A small Hub on the loopback address: in-memory repositories that can be created, committed to, and read.

Its responses match the real Hub's as far as huggingface_hub distinguishes them: status, error code, and message.
Large files go through its LFS storage, separately from the commits that name them.
"""

import base64
import json
import os
import re
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from urllib.parse import unquote, urlsplit

# The namespaces that each valid token may write to.
TOKENS = {"writer": {"you", "our-lab"}, "reader": set()}
USERS = {"writer": "you", "reader": "someone"}
EMPTY = "0" * 40
KINDS = {"models": "model", "datasets": "dataset", "spaces": "space"}
# Files that the real Hub stores with LFS.
LARGE = (".safetensors", ".pt")


def environment(hub: "FakeHub", home: Path) -> dict[str, str]:
    """The environment of a process that uses this Hub; huggingface_hub reads it when it is imported."""
    return {
        **os.environ, "HF_ENDPOINT": hub.address, "HF_TOKEN": "writer", "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(home / "home"), "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }  # fmt: skip


class FakeHub:
    """Runs for the duration of its `with` block.

    Attributes:
        repositories: models, and Spaces that were created here: name → branch → path → content.
        others: other repositories: name → "dataset" or "space".
        kinds: name → type of a repository that was created here, and the SDK of a Space.
        private: name → whether only its owners can see it.
        history: commit → repository and its files after the commit.
        messages: messages of all commits, in order.
        lfs: digest → content of large files.
        received: number of bytes of large files that were uploaded.
        holds_commits: whether commits are received but never answered.
        held: set once a commit is held or a download cut off.
        refuses: error status that answers every request; 0 for none.
        cuts_off: number of bytes of a large file after which its download breaks off; `None` for no limit.
    """

    def __init__(self):
        self.repositories: dict[str, dict[str, dict[str, bytes]]] = {}
        self.others: dict[str, str] = {}
        self.private: dict[str, bool] = {}
        self.kinds: dict[str, tuple[str, str | None]] = {}
        self.history: dict[str, tuple[str, dict[str, bytes]]] = {}
        self.heads: dict[tuple[str, str], str] = {}
        self.messages: list[str] = []
        self.lfs: dict[str, bytes] = {}
        self.received = 0
        self.holds_commits = False
        self.held = Event()
        self.refuses = 0
        self.cuts_off: int | None = None
        self.lock = Lock()

    def __enter__(self) -> "FakeHub":
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": self}))
        self.server.daemon_threads = True
        Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def commits(self) -> int:
        """The number of commits in all repositories."""
        return len(self.messages)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def files(self, name: str, revision: str) -> dict[str, bytes] | None:
        """The files of a branch or a commit."""
        if revision in self.history:
            return self.history[revision][1]
        branches = self.repositories[name]
        return branches["main"] if revision == EMPTY else branches.get(revision)


class Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status: int, content: bytes | dict | list = b"", **headers: str) -> None:
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def refuse(self, status: int, message: str, code: str = "") -> None:
        headers = {"X_Error_Message": message, **({"X_Error_Code": code} if code else {})}
        self.answer(status, {"error": message}, **headers)

    @property
    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def is_rejected(self) -> bool:
        """Answer with an error if the Hub is down or the token is invalid, and return whether it was so."""
        if self.hub.refuses:
            self.refuse(self.hub.refuses, "Internal Error")
        elif self.token and self.token not in TOKENS:
            self.refuse(401, "Invalid credentials in Authorization header")
        else:
            return False
        return True

    def may_write(self, name: str) -> bool:
        return name.partition("/")[0] in TOKENS.get(self.token, ())

    def is_visible(self, name: str, kind: str = "model") -> bool:
        held = self.hub.kinds.get(name, ("model", None))[0] if name in self.hub.repositories else None
        exists = kind in (held, self.hub.others.get(name))
        return exists and (self.may_write(name) or not self.hub.private.get(name))

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return content
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_POST(self):
        body = self.body()
        path = unquote(urlsplit(self.path).path)
        if self.is_rejected():
            return None
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if not self.token:
            return self.refuse(401, "Invalid username or password.")
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if found := re.fullmatch(r"/((?:spaces/)?[^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            kind, name, action, branch = "model", found[1].removeprefix("spaces/"), "lfs", ""
            kind = self.hub.kinds.get(name, (kind, None))[0]
        else:
            found = re.fullmatch(r"/api/(models|spaces)/([^/]+/[^/]+)/(preupload|commit|branch)/(.+)", path)
            kind, name, action, branch = KINDS[found[1]], *found.groups()[1:]
        if not self.is_visible(name, kind):
            return self.refuse(404, "Repository not found", "RepoNotFound")
        if not self.may_write(name):
            return self.refuse(403, "Forbidden: pass `create_pr=1` as a query parameter to create a Pull Request")
        if action == "lfs":
            return self.answer_lfs(json.loads(body)["objects"])
        branches = self.hub.repositories[name]
        if action == "branch":
            if branch in branches:
                return self.refuse(409, "Reference already exists")
            branches[branch] = dict(branches["main"])
            return self.answer(200, {})
        if branch not in branches:
            return self.refuse(404, "Invalid rev id", "RevisionNotFound")
        if action == "preupload":
            files = [{"path": file["path"], "uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular",
                      "shouldIgnore": False, "oid": None}
                     for file in json.loads(body)["files"]]  # fmt: skip
            return self.answer(200, {"files": files})
        if self.hub.holds_commits:
            self.hub.held.set()
            return Event().wait(60)
        return self.commit(name, branch, body)

    def answer_lfs(self, objects: list[dict]) -> None:
        """Answer with the upload URLs of large files; files already stored get none."""
        answered = [
            {**file, **({} if file["oid"] in self.hub.lfs else
                        {"actions": {"upload": {"href": f"{self.hub.address}/lfs/{file['oid']}"}}})}
            for file in objects
        ]  # fmt: skip
        self.answer(200, {"transfer": "basic", "objects": answered})

    def do_PUT(self):
        content = self.body()
        if self.is_rejected():
            return None
        oid = self.path.removeprefix("/lfs/")
        if sha256(content).hexdigest() != oid:
            return self.refuse(400, "Checksum mismatch")
        self.hub.lfs[oid] = content
        self.hub.received += len(content)
        return self.answer(200)

    def create(self, settings: dict) -> None:
        owner = settings.get("organization") or USERS[self.token]
        name = f"{owner}/{settings['name']}"
        if owner not in TOKENS[self.token]:
            return self.refuse(403, f'You don\'t have the rights to create a model under the namespace "{owner}"')
        if name in self.hub.repositories:
            url = f"{self.hub.address}/{name}"
            return self.answer(409, {"error": "You already created this model repo", "url": url})
        self.hub.repositories[name] = {"main": {}}
        self.hub.kinds[name] = settings.get("type", "model"), settings.get("sdk")
        self.hub.private[name] = bool(settings.get("private")) or settings.get("visibility") == "private"
        return self.answer(200, {"url": f"{self.hub.address}/{name}", "name": name})

    def commit(self, name: str, branch: str, body: bytes) -> None:
        lines = [json.loads(line) for line in body.splitlines()]
        with self.hub.lock:
            files = dict(self.hub.repositories[name][branch])
            for line in lines:
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    files[value["path"]] = self.hub.lfs[value["oid"]]
                elif line["key"] == "deletedFile":
                    del files[value["path"]]
            self.hub.messages.append(lines[0]["value"]["summary"])
            oid = f"{self.hub.commits:040x}"
            self.hub.repositories[name][branch] = files
            self.hub.history[oid] = name, files
            self.hub.heads[name, branch] = oid
        url = f"{self.hub.address}/{name}/commit/{oid}"
        self.answer(200, {"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""})

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        if self.is_rejected():
            return None
        if path == "/api/whoami-v2":
            if not self.token:
                return self.refuse(401, "Invalid username or password.")
            return self.answer(200, {"type": "user", "name": USERS[self.token], "orgs": []})
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.send_file(*found.groups())
        if found := re.fullmatch(r"/api/(models|datasets|spaces)/([^/]+/[^/]+)(/.*)?", path):
            return self.describe(KINDS[found[1]], found[2], found[3] or "")
        return self.refuse(404, "Not found")

    do_HEAD = do_GET

    def describe(self, kind: str, name: str, what: str) -> None:
        if not self.is_visible(name, kind):
            # Without a login, the real Hub does not distinguish missing from private repositories.
            return self.refuse(404 if self.token else 401, "Repository not found", "RepoNotFound")
        if what == "/auth-check/write":
            return self.answer(200) if self.may_write(name) else self.refuse(403, "Forbidden")
        if what == "/auth-check":
            return self.answer(200)
        if name not in self.hub.repositories:
            return self.answer(200, {"id": name, "sha": EMPTY, "siblings": []})
        found = re.fullmatch(r"(?:/(revision|tree)/([^/]+))?(/.*)?", what)
        revision = found[2] or "main"
        files = self.hub.files(name, revision)
        if files is None:
            return self.refuse(404, "Invalid rev id", "RevisionNotFound")
        if found[1] == "tree":
            listed = [{"type": "file", "path": file, "size": len(content), "oid": sha1(content).hexdigest()}
                      for file, content in files.items()]  # fmt: skip
            return self.answer(200, listed)
        sha = revision if revision in self.hub.history else self.hub.heads.get((name, revision), EMPTY)
        siblings = [{"rfilename": file, "size": len(content)} for file, content in files.items()]
        return self.answer(200, {"id": name, "sha": sha, "siblings": siblings})

    def send_file(self, name: str, revision: str, file: str) -> None:
        if not self.is_visible(name):
            return self.refuse(404 if self.token else 401, "Repository not found", "RepoNotFound")
        files = self.hub.files(name, revision)
        if files is None:
            return self.refuse(404, "Invalid rev id", "RevisionNotFound")
        commit = revision if revision in self.hub.history else self.hub.heads.get((name, revision), EMPTY)
        if file not in files:
            return self.answer(404, {}, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        content = files[file]
        headers = {"ETag": f'"{sha1(content).hexdigest()}"', "X_Repo_Commit": commit, "Accept_Ranges": "bytes"}
        if self.command == "GET" and file.endswith(LARGE) and self.hub.cuts_off is not None:
            self.send_response(200)
            for header, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(header.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(content[: self.hub.cuts_off])
            self.hub.held.set()
            self.close_connection = True
            return None
        if start := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            first = int(start[1])
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            return self.answer(206, content[first:], **headers)
        return self.answer(200, content, **headers)
