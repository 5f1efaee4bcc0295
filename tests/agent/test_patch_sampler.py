"""Drawing indices is timed in real loaders, and the order of samples stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.watching import PRELUDE, plain, profile_of, said, watched

SCRIPT = """
class Slow(torch.utils.data.Sampler):
    def __len__(self): return 48
    def __iter__(self):
        time.sleep(0.05)
        for index in torch.randperm(48).tolist():
            time.sleep(0.002)
            yield index

workers = {workers}
loader = DataLoader(Rows(48), 4, sampler=Slow(), num_workers=workers, persistent_workers=workers > 0)
seen = []
for epoch in range(3):
    for batch in loader:
        train_on(batch)
        seen += batch[:, 0].tolist()
assert not any("_next_index" in vars(one) for one in [loader._iterator] if one is not None)
say(seen=seen)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_draws_are_timed_by_the_batch_and_at_each_start(workers: int, tmp_path: Path) -> None:
    script = PRELUDE + SCRIPT.format(workers=workers)
    (tmp_path / "plain").mkdir()
    told = watched(tmp_path, script)
    assert said(told) == said(plain(tmp_path / "plain", script)), "the same samples in the same order"
    (making,) = profile_of(told).makings
    assert making.draw_s is not None
    assert making.draw_s > 0.006, "four indices of two milliseconds each, and a draw that finds the end"
    assert making.draw_cpu_s is not None
    assert making.draw_cpu_s < 0.5 * making.draw_s, "they were slept, not computed"
    assert sum(making.first_draws_s) > 3 * 0.045
