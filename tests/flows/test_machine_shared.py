"""The same random life on PostgreSQL, shorter: locks must give there what one writer gives."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from previously import app
from tests.flows import pairs
from tests.flows.test_machine import Life
from tests.postgres import Server


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.proves("I1", "I2", "I4", "I6", "I7")
def test_a_life_on_postgres(postgres: Server):
    class SharedLife(Life):
        """Every life has a database of its own."""

        def place(self) -> app.Location:
            return postgres.database()

    some = settings(
        max_examples=12,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    with pairs.registered():
        run_state_machine_as_test(SharedLife, settings=some)
