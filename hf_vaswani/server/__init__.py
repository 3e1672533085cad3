"""A translation server with the HTTP APIs of LibreTranslate and DeepL, whose clients need no changes.

`api` is the application that clients reach, with the routes of `libretranslate` and `deepl` and a `page` for people.
`catalog` tells which model translates which pair, and `model_translator` translates with one of them. On one machine,
`launch` starts the application, and `workers` the processes in which models translate. On several, both are Ray Serve
deployments, in `application`; `cluster` starts them.
"""

import os

# Ray reads these when it is imported. Routes only wait, and replicas translate in threads of their own: Ray's extra
# threads and event loops would cost a fifth of the throughput on two cores. What Ray says goes to its own files, and
# all lines of requests are printed. Its workers get the priority of other programs, not that of batch jobs.
_RAY_SETTINGS = {
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0", "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1", "RAY_SERVE_LOG_TO_STDERR": "0", "RAY_DEDUP_LOGS": "0",
    "RAY_worker_niceness": "0",
}  # fmt: skip
for _name, _value in _RAY_SETTINGS.items():
    os.environ.setdefault(_name, _value)
