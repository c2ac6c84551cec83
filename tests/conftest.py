"""How many random examples a property is tried on: `ci` by default, `nightly` for `make nightly`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")
