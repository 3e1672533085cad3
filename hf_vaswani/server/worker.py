"""A process that translates with one model, on the machine of the server: how it is called, and what it does.

It runs the class that a replica on Ray runs. Calls of its methods go to the standard input of the process, and their
results come from its standard output, both pickled. It ends when its input does, however the server has ended.
"""

import asyncio
import logging
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple

from ..errors import InputError, reason
from ..text.languages import Languages
from .accounts import APIError
from .arguments import ServerArguments
from .catalog import GivenModel, Pair, model_pairs
from .messages import TextError

# With the imports of this process, wherever it is started.
CODE = "import sys; sys.path[:], sys.argv[:] = {!r}, {!r}; from {} import main; main()"
CANCEL = "cancel"
END_SECONDS = 5


class Inspection(NamedTuple):
    """What a process says of its model before it opens it.

    Attributes:
        warning: why the model may lose what the server is to keep, if so.
        version: digest of its files.
    """

    pairs: dict[Pair, Languages]
    warning: str | None
    version: str


class WorkerDied(APIError):
    """A process has ended before it answered."""

    def __init__(self) -> None:
        super().__init__(503, "The model is being started; try again")


class RemoteTraceback(Exception):
    """Where an error was raised in another process, as text."""


class Worker:
    """The process, as the server sees it.

    Attributes:
        calls: what the results of calls under way will be put into, by their numbers.
        last_used: when it was last given something to translate.
        reading: ends with the process.
    """

    def __init__(self, process: asyncio.subprocess.Process):
        assert process.stdin and process.stdout
        self.process, self._input, self._output = process, process.stdin, process.stdout
        self.calls: dict[int, asyncio.Future] = {}
        self._numbers, self.last_used = count(), time.monotonic()
        self.reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, environment: Mapping[str, str]) -> "Worker":
        code, pipe = CODE.format(sys.path, sys.argv[:1], __name__), asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdin=pipe, stdout=pipe, env={**os.environ, **environment},
            start_new_session=True,  # or else Ctrl+C would end it before its requests are finished
        ))  # fmt: skip

    async def call(self, name: str, *arguments: object) -> Any:
        """The result of a method in the process.

        Raises:
            WorkerDied: the process has ended.
            InputError, TextError, RuntimeError: what the method has raised.
        """
        if self.reading.done():
            raise WorkerDied
        number = next(self._numbers)
        answer = self.calls[number] = asyncio.get_running_loop().create_future()
        self._send(number, name, *arguments)
        try:
            return await answer
        except asyncio.CancelledError:
            self._send(number, CANCEL)
            raise
        finally:
            del self.calls[number]

    def _send(self, *message: object) -> None:
        if not self._input.is_closing():  # as it is if the process has died, which reading notices
            self._input.write(pickle.dumps(message))

    async def _read(self) -> None:
        try:
            while True:
                size = int.from_bytes(await self._output.readexactly(8), "big")
                number, result, trace = pickle.loads(await self._output.readexactly(size))
                answer = self.calls.get(number)
                if answer is None or answer.done():  # cancelled
                    continue
                if trace is None:
                    answer.set_result(result)
                else:
                    result.__cause__ = RemoteTraceback(trace)
                    answer.set_exception(result)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            for answer in self.calls.values():
                if not answer.done():
                    answer.set_exception(WorkerDied())

    async def how_it_ended(self) -> str:
        status = await self.process.wait()
        return f"was killed ({signal.Signals(-status).name})" if status < 0 else f"exited with status {status}"

    async def end(self) -> None:
        self._input.close()
        await asyncio.wait({self.reading}, timeout=END_SECONDS)
        if not self.reading.done():
            self.process.kill()
        await self.process.wait()


def main() -> None:
    """What the process does: answer calls until its input ends."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not be among the results
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the server finishes its requests, and then ends this
    asyncio.run(_answer(output))


async def _answer(output: object) -> None:
    loop, tasks = asyncio.get_running_loop(), {}
    translator: Any = None

    def read() -> None:
        try:
            while True:
                loop.call_soon_threadsafe(start, *pickle.load(sys.stdin.buffer))
        finally:
            os._exit(0)

    def start(number: int, name: str, *arguments: object) -> None:
        if name != CANCEL:
            tasks[number] = loop.create_task(answer(number, name, arguments))
            tasks[number].add_done_callback(lambda _: tasks.pop(number))
        elif number in tasks:
            tasks[number].cancel()

    async def answer(number: int, name: str, arguments: tuple) -> None:
        nonlocal translator
        result, trace = None, None
        try:
            if name == "inspect":
                result = await asyncio.to_thread(inspect_model, *arguments)
            elif name == "open":
                translator = await asyncio.to_thread(open_model, *arguments)
            else:
                result = await getattr(translator, name)(*arguments)
        except Exception as error:
            result, trace = _without_libraries(error), traceback.format_exc()
        content = pickle.dumps((number, result, trace))
        output.write(len(content).to_bytes(8, "big") + content)
        output.flush()

    threading.Thread(target=read, daemon=True).start()
    await asyncio.Event().wait()


def _without_libraries(error: Exception) -> Exception:
    """An error in a form that can be read where the classes of libraries are not imported."""
    if isinstance(error, InputError | TextError):
        return type(error)(str(error))
    return RuntimeError(reason(error))


def _import_libraries() -> None:
    from transformers.utils.logging import disable_progress_bar

    from .. import load

    load()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    disable_progress_bar()


def inspect_model(model: GivenModel, arguments: ServerArguments) -> Inspection:
    """What can be known of a model without its weights.

    Raises:
        InputError: it cannot be served with these arguments.
    """
    _import_libraries()
    from ..data.tokenizers.tokenizer import load_tokenizer
    from ..text.source_warnings import keep_warning
    from ..translator.backends.selection import BackendSelection
    from ..translator.translator_settings import content_digest

    try:
        BackendSelection(arguments.engine, arguments.quantize)
    except ValueError as error:
        raise InputError(str(error)) from None
    pairs = model_pairs(model)
    warning = keep_warning(load_tokenizer(model.path), arguments.keep) if arguments.keep else None
    return Inspection(pairs, warning, content_digest(model.path))


def open_model(model: GivenModel, arguments: ServerArguments) -> object:
    """What translates; errors as when a model is loaded."""
    _import_libraries()
    import torch

    from .model_translator import ModelTranslator

    if torch.cuda.device_count() < arguments.gpus:
        raise InputError(
            f"--gpus {arguments.gpus:g}: this machine has too few GPUs for all processes. Lower --gpus or --replicas."
        )
    return ModelTranslator(model.path, arguments.engine, arguments.quantize, arguments.keep)
