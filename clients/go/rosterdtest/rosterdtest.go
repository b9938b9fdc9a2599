// Package rosterdtest makes runs for tests of handlers: no coordinator, no network.
//
//	end := rosterdtest.Call(t.Context(), handler, rosterdtest.Trigger{Item: 2, ItemParameter: "Beijing"})
//	if end.Outcome != rosterdtest.Succeeded {
//		t.Fatal(end.Error)
//	}
package rosterdtest

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/internal/bridge"
	"github.com/rosterd/rosterd/clients/go/internal/machine"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// A Trigger is the input of the run; all fields are optional.
type Trigger struct {
	// Job is "test" by default.
	Job  string
	Item int
	// Total is 1 by default.
	Total int
	// Token is 1 by default.
	Token         int64
	ItemParameter string
	JobParameter  string
	Props         map[string]string
	// FireTime is now by default.
	FireTime time.Time
	// Source is SourceManual by default.
	Source rosterd.Source
	// Attempt is 1 by default.
	Attempt   int
	Offset    []byte
	Deadline  time.Time
	Streaming bool
	// Leaving: the worker is leaving.
	Leaving      bool
	TraceContext map[string]string
	// Logger gets the lines of Run.Log; nil: they are dropped.
	Logger *slog.Logger
}

// An Outcome is what would be reported about the run, if no other attempt followed.
type Outcome string

// The outcomes of a run that began.
const (
	Succeeded Outcome = "SUCCEEDED"
	Failed    Outcome = "FAILED"
	Cancelled Outcome = "CANCELLED"
)

// An End is how the run ended.
type End struct {
	Outcome Outcome
	// Retryable: another attempt would follow, if the job has more.
	Retryable bool
	// Output is that of Run.SetOutput.
	Output string
	// Error is the recorded text of what the handler returned or panicked with.
	Error string
	// Err is that itself.
	Err error
	// Processed and Failed are the counts of Run.Count.
	Processed, Failed int
	// Offset is nil if it was not set.
	Offset []byte
	// Percent and Message are the last progress.
	Percent int
	Message string
}

// Call calls a handler once, as a worker would. Once ctx is done the run must stop, as if an operator had cancelled it.
func Call(ctx context.Context, handler rosterd.Handler, trigger Trigger) End {
	logger := trigger.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	done := bridge.Call(ctx, bridge.Attempt{
		Handler: handler, Start: trigger.start(), Leaving: trigger.Leaving, Logger: logger,
	})
	end := End{
		Outcome:   Succeeded,
		Output:    done.Ending.Output,
		Error:     done.Ending.Error,
		Err:       done.Err,
		Processed: int(done.Ending.Processed),
		Failed:    int(done.Ending.Failed),
		Offset:    done.Ending.Offset,
		Percent:   int(done.Progress.Percent),
		Message:   done.Progress.Message,
	}
	switch {
	case done.Stop != machine.NotStopped || done.Ending.Kind == machine.Cancelled:
		end.Outcome = Cancelled
	case done.Ending.Kind != machine.Returned:
		end.Outcome = Failed
		end.Retryable = done.Ending.Kind == machine.Failed
	}
	return end
}

func (t *Trigger) start() machine.StartRun {
	const instance = "127.0.0.1@-@test"
	key := machine.Key{Item: machine.Item{Job: t.Job, Item: uint32(t.Item)}, Token: uint64(max(1, t.Token))}
	if key.Job == "" {
		key.Job = "test"
	}
	fire := t.FireTime
	if fire.IsZero() {
		fire = time.Now()
	}
	source, known := pb.RunSource_value["RUN_SOURCE_"+string(t.Source)]
	if !known {
		source = int32(pb.RunSource_RUN_SOURCE_MANUAL)
	}
	return machine.StartRun{
		Key: key,
		Trigger: &pb.Trigger{
			FireTime:           timestamppb.New(fire),
			Source:             pb.RunSource(source),
			ShardingTotalCount: uint32(max(1, t.Total)),
			ItemParameter:      t.ItemParameter,
			JobParameter:       t.JobParameter,
			Streaming:          t.Streaming,
			TaskId:             fmt.Sprintf("%s@-@%d@-@READY@-@%s", key.Job, t.Item, instance),
			TraceContext:       t.TraceContext,
		},
		InstanceID: instance,
		Attempt:    uint32(max(1, t.Attempt)),
		Offset:     t.Offset,
		Deadline:   t.Deadline,
		Props:      t.Props,
	}
}
