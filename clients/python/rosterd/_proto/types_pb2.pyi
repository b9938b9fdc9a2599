from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class RunSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_SOURCE_UNSPECIFIED: _ClassVar[RunSource]
    RUN_SOURCE_NORMAL_TRIGGER: _ClassVar[RunSource]
    RUN_SOURCE_MISFIRE: _ClassVar[RunSource]
    RUN_SOURCE_FAILOVER: _ClassVar[RunSource]
    RUN_SOURCE_MANUAL: _ClassVar[RunSource]

class RunOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_OUTCOME_UNSPECIFIED: _ClassVar[RunOutcome]
    RUN_OUTCOME_SUCCEEDED: _ClassVar[RunOutcome]
    RUN_OUTCOME_FAILED: _ClassVar[RunOutcome]
    RUN_OUTCOME_CANCELLED: _ClassVar[RunOutcome]
    RUN_OUTCOME_CRASHED: _ClassVar[RunOutcome]
    RUN_OUTCOME_TIMED_OUT: _ClassVar[RunOutcome]
    RUN_OUTCOME_ABORTED: _ClassVar[RunOutcome]
    RUN_OUTCOME_NOT_STARTED: _ClassVar[RunOutcome]
    RUN_OUTCOME_HANDED_BACK: _ClassVar[RunOutcome]

class JobKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_KIND_UNSPECIFIED: _ClassVar[JobKind]
    JOB_KIND_SIMPLE: _ClassVar[JobKind]
    JOB_KIND_DATAFLOW: _ClassVar[JobKind]
    JOB_KIND_COMMAND: _ClassVar[JobKind]
RUN_SOURCE_UNSPECIFIED: RunSource
RUN_SOURCE_NORMAL_TRIGGER: RunSource
RUN_SOURCE_MISFIRE: RunSource
RUN_SOURCE_FAILOVER: RunSource
RUN_SOURCE_MANUAL: RunSource
RUN_OUTCOME_UNSPECIFIED: RunOutcome
RUN_OUTCOME_SUCCEEDED: RunOutcome
RUN_OUTCOME_FAILED: RunOutcome
RUN_OUTCOME_CANCELLED: RunOutcome
RUN_OUTCOME_CRASHED: RunOutcome
RUN_OUTCOME_TIMED_OUT: RunOutcome
RUN_OUTCOME_ABORTED: RunOutcome
RUN_OUTCOME_NOT_STARTED: RunOutcome
RUN_OUTCOME_HANDED_BACK: RunOutcome
JOB_KIND_UNSPECIFIED: JobKind
JOB_KIND_SIMPLE: JobKind
JOB_KIND_DATAFLOW: JobKind
JOB_KIND_COMMAND: JobKind

class RunRef(_message.Message):
    __slots__ = ("job", "item", "token")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    job: str
    item: int
    token: int
    def __init__(self, job: _Optional[str] = ..., item: _Optional[int] = ..., token: _Optional[int] = ...) -> None: ...
