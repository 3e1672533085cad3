"""A translation server on Ray Serve, with the HTTP APIs of LibreTranslate and DeepL, whose clients need no changes.

`catalog` tells which model translates which pair, `replica` translates with one of them, `api` is the application that
clients reach, with the routes of `libretranslate` and `deepl`; `launch` starts and stops all of it on this machine,
`cluster` on a Ray cluster.
"""

import os

# Routes only wait, and replicas translate in threads of their own: Ray's extra threads and event loops would cost a
# fifth of the throughput on two cores. Ray reads this when it is imported.
for _name in ("RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD", "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP"):
    os.environ.setdefault(_name, "0")
os.environ.setdefault("RAY_SERVE_USE_GRPC_BY_DEFAULT", "1")
