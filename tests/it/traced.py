"""A worker in Python that prints the span of each of its runs, by OpenTelemetry's API.

The environment has PLAN, a JSON object with server, job and file.
"""

import json
import os

from opentelemetry import trace
from rosterd import Options, Run, Worker

plan = json.loads(os.environ["PLAN"])
worker = Worker(plan["server"], options=Options(slots=16, address="host-python"))


@worker.job(plan["job"])
def work(run: Run) -> None:
    current = trace.get_current_span().get_span_context()
    line = {"item": run.item, "trace": f"{current.trace_id:032x}", "span": f"{current.span_id:016x}"}
    with open(plan["file"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


worker.run()
