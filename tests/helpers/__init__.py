"""What several tests use: evaluators, random programs, devices and frameworks to test with."""
