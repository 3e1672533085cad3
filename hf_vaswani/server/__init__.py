"""A translation server with the HTTP APIs of LibreTranslate and DeepL, whose clients need no changes.

`api` is the application that clients reach, with the routes of `libretranslate` and `deepl`; `catalog` tells which
model translates which pair, and `replica` translates with one of them. On one machine, `launch` starts the application,
and `workers` the processes that replicas run in. On several, both are deployments of Ray Serve, in `application`;
`cluster` starts them.
"""

import os

# Routes only wait, and replicas translate in threads of their own: Ray's extra threads and event loops would cost a
# fifth of the throughput on two cores. Ray reads this when it is imported.
for _name in ("RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD", "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP"):
    os.environ.setdefault(_name, "0")
os.environ.setdefault("RAY_SERVE_USE_GRPC_BY_DEFAULT", "1")
