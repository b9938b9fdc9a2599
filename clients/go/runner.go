package rosterd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rosterd/rosterd/clients/go/internal/driver"
	"github.com/rosterd/rosterd/clients/go/internal/machine"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// runner calls user code in goroutines of its own, and reports when it began and ended. It decides nothing: the machine
// decides which run starts or stops.
type runner struct {
	// base is below all contexts of runs.
	base      context.Context
	jobs      map[string]*job
	state     *driver.State
	event     func(machine.Event)
	log       *slog.Logger
	hooks     Hooks
	lines     *lines
	departing atomic.Bool

	mutex sync.Mutex
	runs  map[machine.Key]*Run
}

// ---- called by the driver

// StartRun implements driver.User.
func (r *runner) StartRun(start machine.StartRun) {
	run := newRun(start, r, r.log)
	run.begin(r.base)
	r.mutex.Lock()
	r.runs[run.key] = run
	r.mutex.Unlock()
	go r.carryOut(run)
}

// StopRun implements driver.User.
func (r *runner) StopRun(key machine.Key, reason machine.StopReason) {
	r.mutex.Lock()
	run := r.runs[key]
	r.mutex.Unlock()
	if run != nil {
		run.stopFor(reason)
	}
}

func (r *runner) stopAll(reason machine.StopReason) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, run := range r.runs {
		run.stopFor(reason)
	}
}

// StartCallback implements driver.User.
func (r *runner) StartCallback(callback *pb.Callback) {
	go func() {
		err := r.callBack(callback)
		ended := machine.CallbackEnded{ID: callback.GetCallbackId()}
		if err != nil {
			ended.Error = describe(err)
		}
		r.event(ended)
	}()
}

// Leaving implements driver.User.
func (r *runner) Leaving() {
	r.departing.Store(true)
}

// Line implements driver.User.
func (r *runner) Line(line machine.Effect) {
	r.lines.put(line)
}

// ---- what runs need

func (r *runner) leaseOver(stopped <-chan struct{}) bool { return r.state.LeaseOver(stopped) }
func (r *runner) leaving() bool                          { return r.departing.Load() }
func (r *runner) post(event machine.Event)               { r.event(event) }

func newRun(start machine.StartRun, outlet outlet, log *slog.Logger) *Run {
	trigger := start.Trigger
	run := &Run{
		Job:           start.Key.Job,
		Item:          int(start.Key.Item.Item),
		Total:         int(trigger.GetShardingTotalCount()),
		Token:         tokenOf(start.Key.Token),
		ItemParameter: trigger.GetItemParameter(),
		JobParameter:  trigger.GetJobParameter(),
		Props:         maps.Clone(start.Props),
		FireTime:      trigger.GetFireTime().AsTime(),
		Source:        Source(strings.TrimPrefix(trigger.GetSource().String(), "RUN_SOURCE_")),
		Attempt:       int(start.Attempt),
		Offset:        append([]byte(nil), start.Offset...),
		Deadline:      start.Deadline,
		Streaming:     trigger.GetStreaming(),
		InstanceID:    start.InstanceID,
		TaskID:        trigger.GetTaskId(),
		TraceContext:  maps.Clone(trigger.GetTraceContext()),
		key:           start.Key,
		outlet:        outlet,
	}
	if timeout := trigger.GetTimeout().AsDuration(); run.Deadline.IsZero() && timeout > 0 {
		// It counts from now.
		run.Deadline = time.Now().Add(timeout)
	}
	if _, known := pb.RunSource_name[int32(trigger.GetSource())]; !known {
		run.Source = SourceUnspecified
	}
	run.Log = loggerOf(log, run)
	return run
}

// ---- one attempt

func (r *runner) carryOut(run *Run) {
	job := r.jobs[run.Job]
	if objection := r.lastLook(job, run); objection != "" {
		r.forget(run)
		run.left()
		r.hook("RunNotStarted", r.hooks.RunNotStarted != nil, func() { r.hooks.RunNotStarted(run, objection) })
		r.event(machine.Ended{Key: run.key, Ending: machine.Ending{Kind: machine.NotBegun, Error: objection}})
		return
	}
	r.event(machine.Began{Key: run.key})
	r.hook("RunStarted", r.hooks.RunStarted != nil, func() { r.hooks.RunStarted(run) })
	begun := time.Now()
	err := errGoexit
	// Deferred, since a handler may end its goroutine.
	defer func() {
		end := RunEnd{Err: err, Duration: time.Since(begun)}
		if reason := run.stopped(); reason != machine.NotStopped {
			end.Stopped = stopError(reason)
		}
		r.forget(run)
		r.event(machine.Ended{Key: run.key, Ending: endingOf(run, err)})
		r.hook("RunEnded", r.hooks.RunEnded != nil, func() { r.hooks.RunEnded(run, end) })
	}()
	err = protected(func() error { return job.handler(run.ctx, run) })
}

// lastLook checks once more right before user code: this goroutine may have waited since the machine checked.
func (r *runner) lastLook(job *job, run *Run) string {
	switch {
	case job == nil:
		return "this worker has no such job"
	case r.state.LeaseOver(run.ctx.Done()) && run.stopped() == machine.NotStopped:
		return "the lease had ended before user code began"
	case run.stopped() != machine.NotStopped:
		return "cancelled: " + run.stopped().String()
	default:
		return ""
	}
}

func (r *runner) forget(run *Run) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.runs, run.key)
}

func (r *runner) hook(name string, given bool, call func()) {
	if !given {
		return
	}
	if err := protected(func() error { call(); return nil }); err != nil {
		r.lines.put(machine.Note{Level: slog.LevelError, Text: fmt.Sprintf("the hook %s failed: %s", name, describe(err))})
	}
}

func (r *runner) callBack(callback *pb.Callback) error {
	job := r.jobs[callback.GetJob()]
	if job == nil {
		return nil
	}
	call := job.onAllCompleted
	switch callback.GetKind() {
	case pb.CallbackKind_CALLBACK_KIND_ALL_STARTED:
		call = job.onAllStarted
	case pb.CallbackKind_CALLBACK_KIND_ALL_COMPLETED:
	default:
		call = nil
	}
	if call == nil {
		return nil
	}
	ctx := r.base
	if timeout := callback.GetTimeout().AsDuration(); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	fire := Fire{Job: callback.GetJob(), Time: callback.GetFireTime().AsTime()}
	return protected(func() error { return call(ctx, fire) })
}

// ---- how user code ended

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// panicError is what user code panicked with.
type panicError struct {
	cause any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("panic: %v", e.cause)
}

func (e *panicError) Unwrap() error {
	err, _ := e.cause.(error)
	return err
}

// protected turns a panic into an error.
func protected(call func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{cause, debug.Stack()}
		}
	}()
	return call()
}

func endingOf(run *Run, err error) machine.Ending {
	stop := run.stopped()
	ending := run.left()
	var panicked *panicError
	switch {
	case err == nil:
		ending.Kind = machine.Returned
	case stop != machine.NotStopped && !errors.As(err, &panicked) && (errors.Is(err, context.Canceled) || errors.Is(err, ErrStopped)):
		ending.Kind, ending.Error = machine.Cancelled, stop.String()
	case IsFatal(err):
		ending.Kind, ending.Error = machine.Fatal, describe(err)
	case errors.Is(err, ErrCancelled):
		ending.Kind, ending.Error = machine.Cancelled, err.Error()
	default:
		ending.Kind, ending.Error = machine.Failed, describe(err)
	}
	return ending
}

// describe is an error as text, with its origin if it has one: a panic's stack, or that of a library whose errors
// format theirs.
func describe(err error) string {
	text := err.Error()
	var panicked *panicError
	if errors.As(err, &panicked) {
		text += "\n" + string(panicked.stack)
	} else if formatter, does := unmarked(err).(fmt.Formatter); does {
		text = fmt.Sprintf("%+v", formatter)
	}
	return machine.Shorten(text, machine.MaxError)
}

// unmarked is the error without the mark of Fatal around it.
func unmarked(err error) error {
	if fatal, marked := err.(*fatalError); marked {
		return fatal.error
	}
	return err
}
