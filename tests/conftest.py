"""What every test may rely on."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.golden import Golden

# The tests run in as many processes as there are cores. Threads of NumPy's products would only wait for one another;
# this has to be set before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A busy machine is no failure.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the texts in tests/goldens anew")


def pytest_collection_finish() -> None:
    """Python's garbage collector leaves alone what is there before the first test, which stays to the end, and looks at
    what tests build as seldom as in a compilation."""
    from girih.api.compile import COLLECTION_THRESHOLDS

    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)


@pytest.fixture(autouse=True, scope="session")
def own_environment() -> Generator[None]:
    """A test that compiles means it: nothing comes from earlier runs, and nothing is left in the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIRIH_CACHE", "off")
        # The tests run in as many processes as there are cores.
        patch.setenv("GIRIH_JOBS", "1")
        yield


@pytest.fixture(autouse=True)
def interruptible() -> Generator[None]:
    """Ctrl-C works: a shell that starts the tests in the background makes them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """What compares texts with golden files."""
    return Golden(update=request.config.getoption("--update-golden"))


@pytest.fixture(scope="module")
def unhurried_solver() -> Generator[None]:
    """A busy machine changes no plan: see :func:`tests.support.cpsat.unhurried`."""
    from tests.support.cpsat import unhurried

    with unhurried():
        yield
