"""From a profile to a diagnosis: pure functions, no files, no clocks, no unseeded randomness."""
