package scripted

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// Fire is the scheduled time of every Trigger here.
var Fire = time.UnixMilli(1_700_000_000_000).UTC()

// Ref names a run of the job hello.
func Ref(token uint64, item uint32) *pb.RunRef {
	return &pb.RunRef{Job: "hello", Item: item, Token: token}
}

// Tokens are those of runs, sorted.
func Tokens(runs []*pb.RunRef) []uint64 {
	var tokens []uint64
	for _, run := range runs {
		tokens = append(tokens, run.GetToken())
	}
	slices.Sort(tokens)
	return tokens
}

// Welcome has a lease of 5 s by default.
func Welcome(worker string, change ...func(*pb.Welcome)) *pb.SessionResponse {
	welcome := &pb.Welcome{
		WorkerId:                 worker,
		InstanceId:               "10.0.0.1@-@" + worker,
		ResumeKey:                "key of " + worker,
		Lease:                    durationpb.New(5 * time.Second),
		HeartbeatInterval:        durationpb.New(time.Second),
		StopBudget:               durationpb.New(500 * time.Millisecond),
		MaxUnacknowledgedReports: 64,
	}
	for _, change := range change {
		change(welcome)
	}
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Welcome{Welcome: welcome}}
}

// Lease changes that of a Welcome.
func Lease(length, interval, budget time.Duration) func(*pb.Welcome) {
	return func(welcome *pb.Welcome) {
		welcome.Lease = durationpb.New(length)
		welcome.HeartbeatInterval = durationpb.New(interval)
		welcome.StopBudget = durationpb.New(budget)
	}
}

// Registered answers a Register.
func Registered(job string) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Registered{
		Registered: &pb.Registered{Job: job, ShardingTotalCount: 3},
	}}
}

// Refused answers one too.
func Refused(job, code string) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Refused{
		Refused: &pb.Refused{Job: job, Code: code, Message: "no such job"},
	}}
}

// Assignment sends the properties of the job hello.
func Assignment(props map[string]string) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Assignment{
		Assignment: &pb.Assignment{Job: "hello", Items: []uint32{0, 1, 2}, Props: props},
	}}
}

// Trigger starts a run of the job hello.
func Trigger(token uint64, item uint32, change ...func(*pb.Trigger)) *pb.SessionResponse {
	trigger := &pb.Trigger{
		Run:                Ref(token, item),
		FireTime:           timestamppb.New(Fire),
		Source:             pb.RunSource_RUN_SOURCE_NORMAL_TRIGGER,
		ShardingTotalCount: 3,
		ItemParameter:      "the item's",
		JobParameter:       "all",
		Attempt:            1,
		MaxAttempts:        1,
		Kind:               pb.JobKind_JOB_KIND_SIMPLE,
		TaskId:             "hello@-@0@-@READY@-@10.0.0.1@-@w1",
	}
	for _, change := range change {
		change(trigger)
	}
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Trigger{Trigger: trigger}}
}

// Cancel tells a run to stop.
func Cancel(token uint64, item uint32, reason pb.CancelReason) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Cancel{
		Cancel: &pb.Cancel{Run: Ref(token, item), Reason: reason},
	}}
}

// HeartbeatAck acknowledges a heartbeat.
func HeartbeatAck(sequence uint64) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_HeartbeatAck{
		HeartbeatAck: &pb.HeartbeatAck{Sequence: sequence},
	}}
}

// ReportAck acknowledges a report.
func ReportAck(run *pb.RunRef) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_ReportAck{
		ReportAck: &pb.ReportAck{Run: run, Result: pb.ReportResult_REPORT_RESULT_ACCEPTED},
	}}
}

// Callback announces a fire of the job hello.
func Callback(id string, kind pb.CallbackKind, timeout time.Duration) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Callback{Callback: &pb.Callback{
		CallbackId: id, Job: "hello", FireTime: timestamppb.New(Fire), Kind: kind, Timeout: durationpb.New(timeout),
	}}}
}

// Drain asks the worker to leave.
func Drain(grace time.Duration) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Drain{
		Drain: &pb.Drain{Message: "upgrade", Grace: durationpb.New(grace)},
	}}
}

// Draining says that no Trigger follows.
func Draining() *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Draining{Draining: &pb.Draining{}}}
}

// GoodbyeAck lets the worker go.
func GoodbyeAck() *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_GoodbyeAck{GoodbyeAck: &pb.GoodbyeAck{}}}
}
