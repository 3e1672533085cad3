"""The processes of this machine that translate: their models are opened in them, and one that dies is replaced."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

from ..errors import InputError
from .accounts import APIError
from .arguments import MANY_CHUNKS, MOST_CHUNKS, ServerArguments
from .catalog import Catalog, GivenModel, make_catalog, name_models
from .worker import Inspection, Worker, WorkerDied

# How often a process is started in place of one that died; the seconds before the second time, doubled for each
# further one.
STARTS, PAUSE = 4, 1.0
# How often processes are checked whether they answer, and how long that may take before they are replaced; after how
# long without work those end that were started under load.
CHECK_SECONDS, ANSWER_SECONDS, IDLE_SECONDS = 60, 60, 600

Result = TypeVar("Result")


class ModelWorkers:
    """The processes of one model, with the methods of a handle of Ray Serve.

    Args:
        first: number of its first process among those of all models.

    Attributes:
        ready: those that have opened the model.
        failure: why none can open it any more, if so.
    """

    def __init__(self, model: GivenModel, arguments: ServerArguments, first: int):
        self.model, self.arguments, self.first = model, arguments, first
        self.translate, self.align, self.check = (
            SimpleNamespace(remote=partial(self._call, name)) for name in ("translate", "align", "check")
        )
        self.ready: list[Worker] = []
        self.failure: InputError | None = None
        self._started: list[Worker] = []
        self._tasks: dict[int, asyncio.Task] = {}
        self._is_ready = asyncio.Event()

    async def _call(self, name: str, *arguments: object) -> Any:
        while not (alive := [worker for worker in self.ready if not worker.reading.done()]):
            if self.failure:
                raise APIError(503, f"{self.model.path} cannot be opened any more; the server is about to stop")
            self._is_ready.clear()
            await self._is_ready.wait()
        worker = min(alive, key=lambda worker: len(worker.calls))
        if len(worker.calls) >= MOST_CHUNKS:
            raise APIError(429, "Too many requests are waiting; try again later")
        if len(worker.calls) >= MANY_CHUNKS:
            for number in {*range(self.arguments.most_replicas())} - {*self._tasks}:
                self._tasks[number] = asyncio.create_task(self._keep(number))
                break
        worker.last_used = time.monotonic()
        return await worker.call(name, *arguments)

    async def start(self) -> None:
        """Start the processes, which have no model yet."""
        for number in range(self.arguments.replicas):
            await self._start(number)

    async def inspect(self) -> Inspection:
        """What the processes say of the files of the model.

        Raises:
            InputError: it cannot be served.
        """
        return (await together(self._ask(one, "inspect", self.model, self.arguments) for one in self._started))[0]

    async def open(self) -> None:
        """Have the processes open the model; errors as in [`inspect`]."""
        workers = list(self._started)
        await together(map(self._open, workers))
        for number, worker in enumerate(workers):
            self._tasks[number] = asyncio.create_task(self._keep(number, worker))

    async def reload(self, version: str) -> bool:
        """Open the model again where its files have changed, and tell whether they have; errors as in [`inspect`]."""
        return any(
            has_changed for _, has_changed in [await self._ask(one, "reload", version) for one in [*self.ready]]
        )

    async def close(self) -> None:
        """End all processes."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await asyncio.gather(*(worker.end() for worker in self._started))

    async def _keep(self, number: int, worker: Worker | None = None) -> None:
        """Give requests to a process until it ends, and then to another one in its place."""
        while True:
            try:
                worker = worker or await self._replace(number)
            except InputError as error:
                if self.ready:
                    print(f"One process fewer translates: {error}", file=sys.stderr, flush=True)
                else:
                    self.failure = error
                    self._is_ready.set()  # those that wait get an error
                return
            self.ready.append(worker)
            self._is_ready.set()
            await self._watch(worker, is_further=number >= self.arguments.replicas)
            self.ready.remove(worker)
            if not worker.reading.done():
                await self._end(worker)
                del self._tasks[number]
                return
            how = await worker.how_it_ended()
            print(f"A process of {self.model.path} {how}; another one takes its place.", file=sys.stderr, flush=True)
            self._started.remove(worker)
            worker = None

    async def _watch(self, worker: Worker, is_further: bool) -> None:
        """Wait until a process has ended, and end it if it does not answer, or one of those for high load is idle."""
        while not worker.reading.done():
            await asyncio.wait({worker.reading}, timeout=CHECK_SECONDS)
            if is_further and not worker.calls and time.monotonic() - worker.last_used > IDLE_SECONDS:
                return
            check = asyncio.gather(worker.call("check"), return_exceptions=True)
            # Not `wait_for`, which may miss that it is cancelled.
            await asyncio.wait({check}, timeout=ANSWER_SECONDS)
            if not check.done():
                worker.process.kill()

    async def _replace(self, number: int) -> Worker:
        """A new process that has opened the model; errors as in [`inspect`]."""
        for attempt in range(STARTS):
            worker = await self._start(number)
            try:
                await self._open(worker)
                return worker
            except InputError as error:
                failure = error
            await self._end(worker)
            await asyncio.sleep(PAUSE * 2**attempt)
        raise failure

    async def _start(self, number: int) -> Worker:
        worker = await Worker.start(self.arguments.environment(self.first + number))
        self._started.append(worker)
        return worker

    async def _open(self, worker: Worker) -> None:
        await self._ask(worker, "open", self.model, self.arguments)

    async def _end(self, worker: Worker) -> None:
        await worker.end()
        self._started.remove(worker)

    async def _ask(self, worker: Worker, name: str, *arguments: object) -> Any:
        """The result of a method in a process.

        Raises:
            InputError: it failed; the message names the model.
        """
        try:
            return await worker.call(name, *arguments)
        except WorkerDied:
            why = f"the process that should translate with it {await worker.how_it_ended()}"
        except (InputError, RuntimeError) as error:
            why = str(error)
        raise InputError(why if self.model.path in why else f"{self.model.path}: {why}") from None


class Workers:
    """All processes that translate.

    Attributes:
        handles: those of each model, by its name.
    """

    def __init__(self, arguments: ServerArguments):
        self.models, self.via = name_models(arguments.models), arguments.via
        self.handles = {
            name: ModelWorkers(model, arguments, number * arguments.most_replicas())
            for number, (name, model) in enumerate(self.models.items())
        }

    @property
    def failure(self) -> InputError | None:
        """Why a model is not translated with any more, if so."""
        return next((model.failure for model in self.handles.values() if model.failure), None)

    async def open(self) -> Catalog:
        """Open all models.

        Raises:
            InputError: a model cannot be served.
        """
        for model in self.handles.values():
            await model.start()
        found = await together(model.inspect() for model in self.handles.values())
        for name, inspection in zip(self.handles, found):
            if inspection.warning:
                print(f"{name}: {inspection.warning}", file=sys.stderr, flush=True)
        catalog = make_catalog(self.models, [inspection.pairs for inspection in found], self.via)
        await together(model.open() for model in self.handles.values())
        return catalog

    async def reload(self) -> tuple[Catalog, list[str]]:
        """Open models again whose files have changed; the names of these.

        Raises:
            InputError: a model cannot be opened; what was open translates on.
        """
        found = await together(model.inspect() for model in self.handles.values())
        catalog = make_catalog(self.models, [inspection.pairs for inspection in found], self.via)
        changed = [await model.reload(one.version) for model, one in zip(self.handles.values(), found)]
        return catalog, [name for name, has_changed in zip(self.handles, changed) if has_changed]

    async def close(self) -> None:
        await asyncio.gather(*(model.close() for model in self.handles.values()))


async def together(work: Iterable[Awaitable[Result]]) -> list[Result]:
    """The results of some work that is done at the same time; an `InputError` has the errors of all of it."""
    results = await asyncio.gather(*work, return_exceptions=True)
    if errors := [str(result) for result in results if isinstance(result, InputError)]:
        raise InputError.of(errors)
    done: list[Result] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done
