"""One of several processes that replay a run, started by `launch.py` with a folder to exchange files in."""

import os
import sys
from pathlib import Path

from hf_vaswani import load
from hf_vaswani.errors import InputError
from hf_vaswani.runtime.launcher import end_with_launcher
from hf_vaswani.training.replay.launch import ERRORS_FILE, JOB_FILE, RESULT_FILE
from hf_vaswani.training.replay.replay import ReplayJob, replay


def main(folder: Path) -> None:
    """Replay the job in a folder, and write the results or the errors in the input into that folder."""
    load()
    end_with_launcher()
    job = ReplayJob.model_validate_json((folder / JOB_FILE).read_text(encoding="utf-8"))
    try:
        result = replay(job)
    except InputError as error:
        if not error.is_repeated:
            (folder / ERRORS_FILE).write_text(str(error), encoding="utf-8")
        return
    if os.environ.get("RANK", "0") == "0":
        (folder / RESULT_FILE).write_text(result.model_dump_json(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
