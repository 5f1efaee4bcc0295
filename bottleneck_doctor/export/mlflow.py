"""MLflow: metrics, tags and the page, in the training's own run where it is known, else in a new one."""

from __future__ import annotations

import os

from .data import ExportData

ANSWER_S = 15  # a small server that has just begun takes more than 5


def carry(address: str, data: ExportData) -> str:
    """Log to the tracking server or store at ``address``, else to MLflow's usual one; says which run.

    Of the training's run (MLFLOW_RUN_ID) neither status nor times are touched, which MLflow's own
    ``start_run`` would do.
    """
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(ANSWER_S))
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # of its makers; it also takes seconds
    import mlflow
    from mlflow.entities import Metric, RunTag

    if address:
        mlflow.set_tracking_uri(address)
    client = mlflow.MlflowClient()
    begin, end = data.whole.begin_ns // 10**6, data.whole.end_ns // 10**6
    run, own = os.environ.get("MLFLOW_RUN_ID", ""), False
    if not run:
        own, name = True, os.environ.get("MLFLOW_EXPERIMENT_NAME")
        experiment = os.environ.get("MLFLOW_EXPERIMENT_ID", "0" if not name else "")
        experiment = experiment or mlflow.set_experiment(name).experiment_id
        run = client.create_run(experiment, begin, run_name=f"bdoc {data.run.get('script', '')}").info.run_id
    try:
        words = {**data.run, **data.verdict}
        client.log_batch(
            run,
            metrics=[Metric(one.path, one.value, end, 0) for one in data.values],
            tags=[RunTag(f"bdoc.{name}", word) for name, word in words.items()],
        )
        client.log_text(run, data.page, "bdoc/report.html")
    except Exception:
        if own:
            client.set_terminated(run, "FAILED", end)
        raise
    if own:
        client.set_terminated(run, end_time=end)
    return f"run {run}"
