"""From the run folder's rows and the sensors' samples to one profile: counts and sums, no judgement."""
