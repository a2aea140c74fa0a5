"""The versions of an application's program: taken from users, given to new actors, kept for a restarted coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from structlog.stdlib import BoundLogger

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.keeping import until_kept
from penstock.cluster.events import Deploy, Event
from penstock.cluster.program_view import DifferenceView, ProgramView, RolloutView
from penstock.cluster.programs import kept_rollout
from penstock.cluster.programs.deploy_rules import refusal
from penstock.cluster.programs.program_drawing import fingerprint_of, program_view
from penstock.cluster.programs.program_with_code import pickled_with_code, unpickled_program
from penstock.cluster.programs.version_difference import Version, version_difference
from penstock.cluster.rollout import NEVER, Deployment, Rollout, RolloutPhase, RunningProgram
from penstock.common.errors import ConfigError, StreamsError
from penstock.common.version import version

_MOST_PROGRAM_BYTES = 64 << 20
_VERSION = version()  # as it is imported here, whatever is installed later


class Deployments:
    """One per coordinator; everything runs in its event loop. ``actor_id``: under which Ray keeps the programs."""

    def __init__(
        self,
        first: bytes,
        actor_id: Callable[[], str],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        log: BoundLogger,
    ) -> None:
        """``first``: the program that the application was started with."""
        self.rollout = NEVER
        self._actor_id = actor_id
        self._spawn = spawn
        self._log = log
        self._programs = {1: first}
        self._specs: dict[int, ApplicationSpec] = {}
        self._views: dict[int, asyncio.Future[ProgramView]] = {}
        self._versions: tuple[Version, Version] | None = None
        self._difference: asyncio.Future[DifferenceView] | None = None
        self._call = ""
        self._deploying = asyncio.Lock()
        self._saving = asyncio.Lock()

    @property
    def spec(self) -> ApplicationSpec:
        """The version that all actors are to run now."""
        return self._specs[self.rollout.generation]

    def pickled(self, generation: int) -> bytes:
        """A version, for an actor."""
        return self._programs[generation]

    async def load(self, restarted: bool) -> ApplicationSpec:
        """Returns the version to begin with: after a restart the one that was rolled out last. Raises ConfigError for a
        program that is lost, or cannot be read."""
        if restarted and (kept := await asyncio.to_thread(kept_rollout.load, self._actor_id())) is not None:
            self.rollout, self._call = kept
            for generation in {self.rollout.generation, self.rollout.proven}:
                program = await asyncio.to_thread(kept_rollout.load_program, self._actor_id(), generation)
                if program is not None:
                    self._programs[generation] = program
                elif generation not in self._programs:
                    raise ConfigError(
                        f"version {generation} of the program is not in Ray's key-value store any more, so the "
                        "restarted coordinator cannot give it to stream actors: start the application again with "
                        "'penstock run'"
                    )
        for generation in {self.rollout.generation, self.rollout.proven}:
            self._specs[generation] = await asyncio.to_thread(unpickled_program, self._programs[generation])
        if (now := self.rollout.generation) != (proven := self.rollout.proven):
            self._rolls_out((proven, self._specs[proven]), (now, self._specs[now]))
        return self.spec

    async def running(self) -> RunningProgram:
        """The version that runs, with its code, to be compared with another one. Raises ConfigError."""
        return RunningProgram(await asyncio.to_thread(pickled_with_code, self.spec), self.rollout.last)

    async def view(self, generation: int | None = None) -> ProgramView | None:
        """Returns a version, by default the one that all actors are to run, as the page shows it; made once. None for
        one that is not here."""
        number = self.rollout.generation if generation is None else generation
        if number not in self._specs:
            return None
        if not _is_usable(self._views.get(number)):
            making = asyncio.to_thread(program_view, self._specs[number], number)
            self._views[number] = asyncio.ensure_future(making)
        return await asyncio.shield(self._views[number])

    async def rollout_view(self) -> RolloutView:
        """The last roll-out, for the page."""
        if self._versions is not None and not _is_usable(self._difference):
            making = asyncio.to_thread(version_difference, *self._versions)
            self._difference = asyncio.ensure_future(making)
        difference = None if self._difference is None else await asyncio.shield(self._difference)
        prints = {number: fingerprint_of(spec.topology) for number, spec in sorted(self._specs.items())}
        return RolloutView(self.rollout, prints, difference)

    def _rolls_out(self, old: Version, new: Version) -> None:
        self._versions, self._difference = (old, new), None

    async def deploy(
        self,
        wanted: Deployment,
        machine: Coordinator,
        topics: Callable[[], Mapping[str, int]],
        feed: Callable[[Event], None],
    ) -> str | None:
        """Begin to roll a version out; returns the reason if that is refused. ``topics`` asks Kafka. Raises
        StreamsError when the new program could not be started at all."""
        async with self._deploying:
            if wanted.call == self._call:
                return None  # Ray repeats the call to a coordinator that was restarted
            refused = self._refused_at_once(wanted, machine) or await self._refused(wanted, topics)
            if refused is not None:
                self._log.warning("deploy refused", reason=refused)
                return refused
            generation = wanted.last + 1
            async with self._saving:  # a version on trial may be proven meanwhile: the one before it is still needed
                proven = machine.rollout.proven
                await self._keep_programs(generation, wanted.program, proven)
                begun = Rollout(generation, proven, generation, RolloutPhase.STARTING, watch_s=wanted.watch_s)
                # A version that a user knows to be accepted must be there after a restart, too.
                await asyncio.to_thread(kept_rollout.save, self._actor_id(), begun, wanted.call)
                self._call = wanted.call
                self._rolls_out((proven, self._specs[proven]), (generation, self._specs[generation]))
                feed(Deploy(generation, wanted.watch_s))
            return None

    def _refused_at_once(self, wanted: Deployment, machine: Coordinator) -> str | None:
        if not machine.state.is_live:
            return f"the application is in state {machine.state.value}"
        if wanted.version != _VERSION:
            return (
                f"it runs under penstock {_VERSION}, and this is penstock {wanted.version}. Stop it and start the new "
                "version: the coordinator cannot be replaced while it runs"
            )
        if wanted.last != machine.rollout.last:
            return "another version was deployed meanwhile: compare with that one first"
        if len(wanted.program) > _MOST_PROGRAM_BYTES:
            return f"the program has {len(wanted.program):,} bytes, more than {_MOST_PROGRAM_BYTES:,}"
        return None

    async def _refused(self, wanted: Deployment, topics: Callable[[], Mapping[str, int]]) -> str | None:
        def compare() -> tuple[ApplicationSpec, str | None]:
            spec = unpickled_program(wanted.program)
            return spec, refusal(self.spec, spec, topics())

        spec, refused = await asyncio.to_thread(compare)
        if refused is None:
            self._specs[wanted.last + 1] = spec
            self._views.pop(wanted.last + 1, None)  # of one with this number that was not rolled out after all
        return refused

    async def _keep_programs(self, generation: int, program: bytes, proven: int) -> None:
        """Save both programs before anything begins, because a restarted coordinator must find them."""
        try:
            # The new version's files may overwrite those of the running version.
            self._programs[proven] = await asyncio.to_thread(pickled_with_code, self._specs[proven])
        except StreamsError as error:
            self._log.warning("running version not kept: a roll-back would read its files again", error=str(error))
        self._programs[generation] = program
        for each in (proven, generation):
            await asyncio.to_thread(kept_rollout.save_program, self._actor_id(), each, self._programs[each])

    def rolled_out(self, rollout: Rollout) -> None:
        """Log what the machine has decided, and keep it."""
        self.rollout = rollout
        fields = {"generation": rollout.generation, "phase": rollout.phase.value}
        if rollout.phase in (RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK):
            self._log.error("new version of the program failed", **fields, reason=rollout.reason)
        else:
            self._log.info("new version of the program", **fields)
        self._spawn(self._save())

    async def _save(self) -> None:
        async with self._saving:  # one after the other, and the last is the latest
            await until_kept(lambda: kept_rollout.save(self._actor_id(), self.rollout, self._call), self._log)
            needed = {self.rollout.generation, self.rollout.proven}
            # One above the last is about to be rolled out.
            for old in [each for each in self._programs if each not in needed and each <= self.rollout.last]:
                del self._programs[old]
                self._views.pop(old, None)
                self._specs.pop(old, None)  # a restarted coordinator has the first program, but has not read it
                await until_kept(partial(kept_rollout.delete_program, self._actor_id(), old), self._log)


def _is_usable(made: asyncio.Future[Any] | None) -> bool:
    """Returns True if ``made`` is under way or has succeeded. Otherwise the caller has to make it again."""
    return made is not None and not (made.done() and (made.cancelled() or made.exception() is not None))
