from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from rosterd._proto import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CancelReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANCEL_REASON_UNSPECIFIED: _ClassVar[CancelReason]
    CANCEL_REASON_OPERATOR: _ClassVar[CancelReason]
    CANCEL_REASON_FENCED: _ClassVar[CancelReason]
    CANCEL_REASON_TIMED_OUT: _ClassVar[CancelReason]

class ReportResult(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPORT_RESULT_UNSPECIFIED: _ClassVar[ReportResult]
    REPORT_RESULT_ACCEPTED: _ClassVar[ReportResult]
    REPORT_RESULT_FENCED: _ClassVar[ReportResult]
    REPORT_RESULT_INVALID: _ClassVar[ReportResult]

class CallbackKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALLBACK_KIND_UNSPECIFIED: _ClassVar[CallbackKind]
    CALLBACK_KIND_ALL_STARTED: _ClassVar[CallbackKind]
    CALLBACK_KIND_ALL_COMPLETED: _ClassVar[CallbackKind]
CANCEL_REASON_UNSPECIFIED: CancelReason
CANCEL_REASON_OPERATOR: CancelReason
CANCEL_REASON_FENCED: CancelReason
CANCEL_REASON_TIMED_OUT: CancelReason
REPORT_RESULT_UNSPECIFIED: ReportResult
REPORT_RESULT_ACCEPTED: ReportResult
REPORT_RESULT_FENCED: ReportResult
REPORT_RESULT_INVALID: ReportResult
CALLBACK_KIND_UNSPECIFIED: CallbackKind
CALLBACK_KIND_ALL_STARTED: CallbackKind
CALLBACK_KIND_ALL_COMPLETED: CallbackKind

class SessionRequest(_message.Message):
    __slots__ = ("hello", "register", "unregister", "heartbeat", "run_started", "run_progress", "run_completed", "callback_done", "drain_request", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    RUN_STARTED_FIELD_NUMBER: _ClassVar[int]
    RUN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RUN_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_DONE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_REQUEST_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    register: Register
    unregister: Unregister
    heartbeat: Heartbeat
    run_started: RunStarted
    run_progress: RunProgress
    run_completed: RunCompleted
    callback_done: CallbackDone
    drain_request: DrainRequest
    goodbye: Goodbye
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., register: _Optional[_Union[Register, _Mapping]] = ..., unregister: _Optional[_Union[Unregister, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., run_started: _Optional[_Union[RunStarted, _Mapping]] = ..., run_progress: _Optional[_Union[RunProgress, _Mapping]] = ..., run_completed: _Optional[_Union[RunCompleted, _Mapping]] = ..., callback_done: _Optional[_Union[CallbackDone, _Mapping]] = ..., drain_request: _Optional[_Union[DrainRequest, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("welcome", "registered", "refused", "heartbeat_ack", "assignment", "trigger", "cancel", "report_ack", "callback", "drain", "draining", "goodbye_ack", "shutdown", "unregistered")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    REPORT_ACK_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_ACK_FIELD_NUMBER: _ClassVar[int]
    SHUTDOWN_FIELD_NUMBER: _ClassVar[int]
    UNREGISTERED_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    registered: Registered
    refused: Refused
    heartbeat_ack: HeartbeatAck
    assignment: Assignment
    trigger: Trigger
    cancel: Cancel
    report_ack: ReportAck
    callback: Callback
    drain: Drain
    draining: Draining
    goodbye_ack: GoodbyeAck
    shutdown: Shutdown
    unregistered: Unregistered
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., registered: _Optional[_Union[Registered, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., assignment: _Optional[_Union[Assignment, _Mapping]] = ..., trigger: _Optional[_Union[Trigger, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., report_ack: _Optional[_Union[ReportAck, _Mapping]] = ..., callback: _Optional[_Union[Callback, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ..., goodbye_ack: _Optional[_Union[GoodbyeAck, _Mapping]] = ..., shutdown: _Optional[_Union[Shutdown, _Mapping]] = ..., unregistered: _Optional[_Union[Unregistered, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("namespace", "worker_id", "resume_key", "stream_number", "address", "labels", "slots", "runs_in_flight", "client", "sent_at", "jobs", "holds_triggers", "jobs_asked")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_KEY_FIELD_NUMBER: _ClassVar[int]
    STREAM_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RUNS_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    HOLDS_TRIGGERS_FIELD_NUMBER: _ClassVar[int]
    JOBS_ASKED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    worker_id: str
    resume_key: str
    stream_number: int
    address: str
    labels: _containers.ScalarMap[str, str]
    slots: int
    runs_in_flight: _containers.RepeatedCompositeFieldContainer[_types_pb2.RunRef]
    client: str
    sent_at: _timestamp_pb2.Timestamp
    jobs: _containers.RepeatedScalarFieldContainer[str]
    holds_triggers: bool
    jobs_asked: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., worker_id: _Optional[str] = ..., resume_key: _Optional[str] = ..., stream_number: _Optional[int] = ..., address: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., slots: _Optional[int] = ..., runs_in_flight: _Optional[_Iterable[_Union[_types_pb2.RunRef, _Mapping]]] = ..., client: _Optional[str] = ..., sent_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., jobs: _Optional[_Iterable[str]] = ..., holds_triggers: bool = ..., jobs_asked: _Optional[_Iterable[str]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("worker_id", "instance_id", "resume_key", "namespace", "lease", "heartbeat_interval", "stop_budget", "coordinators", "max_unacknowledged_reports", "coordinator_id")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    STOP_BUDGET_FIELD_NUMBER: _ClassVar[int]
    COORDINATORS_FIELD_NUMBER: _ClassVar[int]
    MAX_UNACKNOWLEDGED_REPORTS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_ID_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    instance_id: str
    resume_key: str
    namespace: str
    lease: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    stop_budget: _duration_pb2.Duration
    coordinators: _containers.RepeatedScalarFieldContainer[str]
    max_unacknowledged_reports: int
    coordinator_id: str
    def __init__(self, worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., resume_key: _Optional[str] = ..., namespace: _Optional[str] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., stop_budget: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., coordinators: _Optional[_Iterable[str]] = ..., max_unacknowledged_reports: _Optional[int] = ..., coordinator_id: _Optional[str] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("job", "handler_type", "config", "overwrite")
    JOB_FIELD_NUMBER: _ClassVar[int]
    HANDLER_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    job: str
    handler_type: str
    config: str
    overwrite: bool
    def __init__(self, job: _Optional[str] = ..., handler_type: _Optional[str] = ..., config: _Optional[str] = ..., overwrite: bool = ...) -> None: ...

class Unregister(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class Unregistered(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("job", "sharding_total_count", "kind", "streaming", "lease", "heartbeat_interval", "config_differences", "next_fire_in")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SHARDING_TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STREAMING_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    CONFIG_DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIRE_IN_FIELD_NUMBER: _ClassVar[int]
    job: str
    sharding_total_count: int
    kind: _types_pb2.JobKind
    streaming: bool
    lease: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    config_differences: _containers.RepeatedCompositeFieldContainer[ConfigDifference]
    next_fire_in: _duration_pb2.Duration
    def __init__(self, job: _Optional[str] = ..., sharding_total_count: _Optional[int] = ..., kind: _Optional[_Union[_types_pb2.JobKind, str]] = ..., streaming: bool = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., config_differences: _Optional[_Iterable[_Union[ConfigDifference, _Mapping]]] = ..., next_fire_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ConfigDifference(_message.Message):
    __slots__ = ("field", "stored", "offered")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    OFFERED_FIELD_NUMBER: _ClassVar[int]
    field: str
    stored: str
    offered: str
    def __init__(self, field: _Optional[str] = ..., stored: _Optional[str] = ..., offered: _Optional[str] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("job", "code", "message")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    job: str
    code: str
    message: str
    def __init__(self, job: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("sequence", "runs_in_flight", "lease")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RUNS_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    runs_in_flight: _containers.RepeatedCompositeFieldContainer[_types_pb2.RunRef]
    lease: _duration_pb2.Duration
    def __init__(self, sequence: _Optional[int] = ..., runs_in_flight: _Optional[_Iterable[_Union[_types_pb2.RunRef, _Mapping]]] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("job", "items", "generation", "sharding_total_count", "props")
    class PropsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SHARDING_TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROPS_FIELD_NUMBER: _ClassVar[int]
    job: str
    items: _containers.RepeatedScalarFieldContainer[int]
    generation: int
    sharding_total_count: int
    props: _containers.ScalarMap[str, str]
    def __init__(self, job: _Optional[str] = ..., items: _Optional[_Iterable[int]] = ..., generation: _Optional[int] = ..., sharding_total_count: _Optional[int] = ..., props: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Trigger(_message.Message):
    __slots__ = ("run", "fire_time", "source", "item_parameter", "job_parameter", "sharding_total_count", "attempt", "offset", "timeout", "kind", "streaming", "max_attempts", "retry_backoff", "starts_in", "retry_backoff_multiplier", "retry_backoff_max", "task_id", "trace_context")
    class TraceContextEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ITEM_PARAMETER_FIELD_NUMBER: _ClassVar[int]
    JOB_PARAMETER_FIELD_NUMBER: _ClassVar[int]
    SHARDING_TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STREAMING_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    STARTS_IN_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_MAX_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.RunRef
    fire_time: _timestamp_pb2.Timestamp
    source: _types_pb2.RunSource
    item_parameter: str
    job_parameter: str
    sharding_total_count: int
    attempt: int
    offset: bytes
    timeout: _duration_pb2.Duration
    kind: _types_pb2.JobKind
    streaming: bool
    max_attempts: int
    retry_backoff: _duration_pb2.Duration
    starts_in: _duration_pb2.Duration
    retry_backoff_multiplier: int
    retry_backoff_max: _duration_pb2.Duration
    task_id: str
    trace_context: _containers.ScalarMap[str, str]
    def __init__(self, run: _Optional[_Union[_types_pb2.RunRef, _Mapping]] = ..., fire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., source: _Optional[_Union[_types_pb2.RunSource, str]] = ..., item_parameter: _Optional[str] = ..., job_parameter: _Optional[str] = ..., sharding_total_count: _Optional[int] = ..., attempt: _Optional[int] = ..., offset: _Optional[bytes] = ..., timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., kind: _Optional[_Union[_types_pb2.JobKind, str]] = ..., streaming: bool = ..., max_attempts: _Optional[int] = ..., retry_backoff: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., starts_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., retry_backoff_multiplier: _Optional[int] = ..., retry_backoff_max: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., task_id: _Optional[str] = ..., trace_context: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("run", "reason", "message")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.RunRef
    reason: CancelReason
    message: str
    def __init__(self, run: _Optional[_Union[_types_pb2.RunRef, _Mapping]] = ..., reason: _Optional[_Union[CancelReason, str]] = ..., message: _Optional[str] = ...) -> None: ...

class RunStarted(_message.Message):
    __slots__ = ("run", "started_at", "attempt")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.RunRef
    started_at: _timestamp_pb2.Timestamp
    attempt: int
    def __init__(self, run: _Optional[_Union[_types_pb2.RunRef, _Mapping]] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ...) -> None: ...

class RunProgress(_message.Message):
    __slots__ = ("run", "percent", "message", "offset")
    RUN_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.RunRef
    percent: int
    message: str
    offset: bytes
    def __init__(self, run: _Optional[_Union[_types_pb2.RunRef, _Mapping]] = ..., percent: _Optional[int] = ..., message: _Optional[str] = ..., offset: _Optional[bytes] = ...) -> None: ...

class RunCompleted(_message.Message):
    __slots__ = ("run", "outcome", "error", "processed", "failed", "offset", "started_at", "ended_at", "output", "attempt")
    RUN_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.RunRef
    outcome: _types_pb2.RunOutcome
    error: str
    processed: int
    failed: int
    offset: bytes
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    output: str
    attempt: int
    def __init__(self, run: _Optional[_Union[_types_pb2.RunRef, _Mapping]] = ..., outcome: _Optional[_Union[_types_pb2.RunOutcome, str]] = ..., error: _Optional[str] = ..., processed: _Optional[int] = ..., failed: _Optional[int] = ..., offset: _Optional[bytes] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., output: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class ReportAck(_message.Message):
    __slots__ = ("run", "result", "code", "message")
    RUN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.RunRef
    result: ReportResult
    code: str
    message: str
    def __init__(self, run: _Optional[_Union[_types_pb2.RunRef, _Mapping]] = ..., result: _Optional[_Union[ReportResult, str]] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Callback(_message.Message):
    __slots__ = ("callback_id", "job", "fire_time", "kind", "timeout")
    CALLBACK_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    callback_id: str
    job: str
    fire_time: _timestamp_pb2.Timestamp
    kind: CallbackKind
    timeout: _duration_pb2.Duration
    def __init__(self, callback_id: _Optional[str] = ..., job: _Optional[str] = ..., fire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[_Union[CallbackKind, str]] = ..., timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CallbackDone(_message.Message):
    __slots__ = ("callback_id", "error", "timed_out")
    CALLBACK_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    callback_id: str
    error: str
    timed_out: bool
    def __init__(self, callback_id: _Optional[str] = ..., error: _Optional[str] = ..., timed_out: bool = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("message", "grace")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    message: str
    grace: _duration_pb2.Duration
    def __init__(self, message: _Optional[str] = ..., grace: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Draining(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GoodbyeAck(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Shutdown(_message.Message):
    __slots__ = ("job", "message")
    JOB_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    job: str
    message: str
    def __init__(self, job: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
