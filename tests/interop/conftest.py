"""Fixtures of tests/interop/: the two stores, and the settings that make every file small.

These tests need RocketMQ's jars and a JDK: `make interop` gets both ready and runs them; `make test` leaves
them out (norecursedirs in pyproject.toml).
"""

import os
from collections.abc import Generator, Iterator

import pytest

from support.interop.process import ROCKETMQ_VERSIONS, Mqstore, RocketMq, prepared_versions

SEED = int(os.environ.get("SEED", "1"))


def pytest_report_header() -> str:
    """Names the seed in the report of each run."""
    return f"all content comes from SEED={SEED}; again: make interop SEED={SEED}"


@pytest.fixture(scope="session")
def ours() -> Iterator[Mqstore]:
    """mqstore, in a process of its own."""
    process = Mqstore()
    yield process
    process.end()


@pytest.fixture(scope="session", params=ROCKETMQ_VERSIONS)
def theirs(request: pytest.FixtureRequest) -> Iterator[RocketMq]:
    """Apache RocketMQ of each version, in a JVM."""
    assert request.param in prepared_versions(), "run these tests with: make interop"
    process = RocketMq(request.param)
    yield process
    process.end()


@pytest.fixture(autouse=True)
def no_store_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that failed with a store open does not make the next one fail: the processes begin anew."""
    yield
    if request.node.stash.get(FAILED, False):
        for name in ("ours", "theirs"):
            if name in request.fixturenames:
                request.getfixturevalue(name).kill()


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def seed() -> int:
    """What all content is made from: SEED from the environment."""
    return SEED
