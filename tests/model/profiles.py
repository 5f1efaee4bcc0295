"""A small whole profile, for every test that needs one."""

from dataclasses import replace

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.instruments import InstrumentWindow, Operation, Series
from bottleneck_doctor.model.loops import Blocked, Epochs, Feed, FetchTable, Loader, Loop, LoopBody, StepTable
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Gap, Machine, Process, Run

RUN = Run(["train.py", "--lr", "0.1"], "train.py", "/home/ann", "2026-03-01T12:00:00Z", 38.2, 0)
MACHINE = Machine("box", "6.1", "Xeon", 8, 4.0, 8, 4.0, 1 << 34, gpus=[])
STEPS = StepTable(
    t=[0.1, 0.2],
    steps=[1, 1],
    epoch=[0, 0],
    wall_s=[0.1, 0.1],
    wait_s=[0.06, 0.05],
    cpu_s=[0.03, None],
    wait_cpu_s=[0.0, 0.0],
    process_cpu_s=[0.1, 0.1],
    runq_s=[None, None],
    wait_runq_s=[None, None],
    backward_s=[0.02, 0.02],
    optimizer_s=[0.001, 0.001],
    checkpoint_s=[0.0, 0.0],
    logging_s=[0.0, 0.0],
    collect_s=[0.0, 0.0],
    copy_s=[0.0, 0.0],
    ready=[None, None],
    set_aside=["", "instrument"],
    exchange_s=[None, 0.001],
    system_s=[0.01, None],
    minor_faults=[4, None],
)
WITHOUT_LOADER = replace(
    StepTable(**{name: column[1:] for name, column in vars(STEPS).items()}),
    gap_s=[0.01], gap_cpu_s=[0.0], gap_runq_s=[0.0], late_s=[0.001], queued_s=[0.001],
)  # fmt: skip
BODY = LoopBody("train.py", "main", 30, 38, [Feed(31, 31), Feed(36, 36, [0])])
PROFILE = Profile(
    run=RUN,
    machine=MACHINE,
    processes=[Process(10, 1, "trainer", -0.01, torch="2.13.0")],
    loaders=[Loader("L0", "DataLoader", 10, location=Location("train.py", 41))],
    loops=[Loop("L0", 10, 10, "train", 2, 0.2, 0.11, Epochs([0.0], [0.01], [0.06], [2]), STEPS)],
    outside=[Loop("", 10, 10, "train", 1, 0.1, 0.0, Epochs(), WITHOUT_LOADER, backwards=1, body=BODY)],
    fetches=[FetchTable("L0")],
    blocked=[Blocked("L0", [0.1], [{"storage": 3}])],
    operations=[Operation("sync", 10, 10, "item", 2, 0.1, 0.01, 0.06, events=[(0.1, 0.06)])],
    series=Series([0.0, 1.0], {"cpu": [0.5, None], "celsius": [-3.0, 4.0]}),
    windows=[InstrumentWindow("py-spy", 5.0, 8.0)],
    gaps=[Gap("GPU", "no driver")],
)
