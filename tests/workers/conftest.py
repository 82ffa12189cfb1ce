"""Fixtures of the workers' tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def ends() -> AsyncIterator[asyncio.Event]:
    """Lets the stubborn agents of a test go, at its end at the latest."""
    event = asyncio.Event()
    yield event
    event.set()
