"""The calls that ask a coordinator for the versions of its program."""

from __future__ import annotations

import asyncio

from penstock.cluster.coordinator_shell.deployments import Deployments
from penstock.cluster.program_view import ProgramView, RolloutView
from penstock.cluster.rollout import RunningProgram


class ProgramCalls:
    """A part of the coordinator's Ray actor. Its calls change nothing."""

    _beginning: asyncio.Task[None]
    _deployments: Deployments

    async def running_program(self) -> RunningProgram:
        """Returns the version of the program that runs, to be compared with another one. Raises ConfigError."""
        await asyncio.wait({self._beginning})
        return await self._deployments.running()

    async def program_view(self, generation: int | None = None) -> ProgramView | None:
        """Returns a version of the program as the page shows it, by default the one that stream actors are to run.
        Returns None for one that is not kept any more, and if the program could not be read."""
        await asyncio.wait({self._beginning})
        return await self._deployments.view(generation)

    async def rollout_view(self) -> RolloutView:
        """Returns the last roll-out, and what differs between its versions."""
        await asyncio.wait({self._beginning})
        return await self._deployments.rollout_view()
