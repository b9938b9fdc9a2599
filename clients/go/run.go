package rosterd

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
)

// tellEvery is how often a run passes its progress and offset to the driver at most: a handler may set them for every
// record.
const tellEvery = 50 * time.Millisecond

// A Source is why a run exists.
type Source string

// The sources of runs.
const (
	// SourceNormal: a scheduled time of the job's schedule.
	SourceNormal Source = "NORMAL_TRIGGER"
	// SourceMisfire: scheduled times that were skipped while the item was busy, merged into this one run.
	SourceMisfire Source = "MISFIRE"
	// SourceFailover: a crashed run, run again.
	SourceFailover Source = "FAILOVER"
	// SourceManual: a manual trigger.
	SourceManual Source = "MANUAL"
	// SourceUnspecified: one that this version does not know.
	SourceUnspecified Source = "UNSPECIFIED"
)

// A Run is one run of one item for one fire. Its fields are read-only; its methods may be called from any goroutine,
// and do nothing once the handler has returned.
type Run struct {
	Job string
	// Item is 0 to Total - 1.
	Item int
	// Total is how many items the job has.
	Total int
	// Token is the fencing token, which only grows per item: pass it to what the run writes to, so that it can refuse late
	// writes.
	Token         int64
	ItemParameter string
	JobParameter  string
	// Props are the job's properties by name, as they were when the run started.
	Props map[string]string
	// FireTime is the scheduled time (for a misfire the latest skipped one, for a failover that of the crashed run), in UTC.
	FireTime time.Time
	Source   Source
	// Attempt counts from 1.
	Attempt int
	// Offset is what the last run, or an earlier attempt of this one, set with SetOffset; empty: none.
	Offset []byte
	// Deadline is when the run will be stopped as timed out; zero: never.
	Deadline time.Time
	// Streaming, for a dataflow: continue until there is nothing left to fetch.
	Streaming bool
	// InstanceID is the worker's id under its jobs.
	InstanceID string
	// TaskID is Elastic-Job's id of the task, job@-@item@-@READY@-@instanceId. The same for each run of the item here.
	TaskID string
	// TraceContext is the trace that the run belongs to, as W3C Trace Context writes it; empty: none.
	TraceContext map[string]string
	// Log adds the run's ids to every line.
	Log *slog.Logger

	key    machine.Key
	outlet outlet
	ctx    context.Context
	cancel context.CancelCauseFunc

	mutex    sync.Mutex
	stop     machine.StopReason
	over     bool
	counted  counts
	output   string
	offset   []byte
	progress machine.Progress
	telling  telling
}

// telling holds the messages for the driver that are not sent yet, and when to send them.
type telling struct {
	progress, offset bool
	last             time.Time
	// timer is set while there are messages.
	timer *time.Timer
}

type counts struct{ processed, failed uint64 }

// outlet is what a run needs from its worker.
type outlet interface {
	// leaseOver reports whether the lease has ended; stopped is closed once the run must stop in any case.
	leaseOver(stopped <-chan struct{}) bool
	leaving() bool
	post(machine.Event)
}

// RunFromContext is the run whose handler got this context, or one from which it was derived.
func RunFromContext(ctx context.Context) (*Run, bool) {
	run, found := ctx.Value(runKey{}).(*Run)
	return run, found
}

type runKey struct{}

// runContext is the context of a run. A query of it checks the lease itself: a process that was frozen past its lease
// may resume in a handler first.
type runContext struct {
	context.Context
	run *Run
}

func (c *runContext) Err() error {
	c.run.look()
	return c.Context.Err()
}

// Deadline is when the run must stop. It has no timer: the worker cancels the context then, with its reason.
func (c *runContext) Deadline() (time.Time, bool) {
	if c.run.Deadline.IsZero() {
		return c.Context.Deadline()
	}
	return c.run.Deadline, true
}

func (c *runContext) Value(key any) any {
	if _, own := key.(runKey); own {
		return c.run
	}
	return c.Context.Value(key)
}

// begin makes the context of the run, below that of the worker.
func (r *Run) begin(parent context.Context) {
	inner, cancel := context.WithCancelCause(parent)
	r.ctx, r.cancel = &runContext{inner, r}, cancel
}

// look lets the run find by itself that its lease has ended.
func (r *Run) look() {
	r.mutex.Lock()
	decided := r.over || r.stop != machine.NotStopped
	r.mutex.Unlock()
	if decided || !r.outlet.leaseOver(r.ctx.Done()) {
		return
	}
	if r.stopFor(machine.StopLease) {
		r.outlet.post(machine.Expired{Key: r.key})
	}
}

// stopFor reports whether it was the first to stop the run.
func (r *Run) stopFor(reason machine.StopReason) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.over || r.stop != machine.NotStopped {
		return false
	}
	r.stop = reason
	r.cancel(stopError(reason))
	return true
}

// Leaving reports whether the worker is leaving: a run that can end early and be continued later should.
func (r *Run) Leaving() bool {
	return r.outlet.leaving()
}

// SetOffset sets the item's offset, at most 64 KiB, for its next run. The coordinator stores it with the outcome, and
// about once a second until then, so that a run that replaces this one after a crash continues from there. A job
// without monitorExecution keeps none.
func (r *Run) SetOffset(offset []byte) error {
	if len(offset) > machine.MaxOffset {
		return fmt.Errorf("an offset may have %d bytes, not %d", machine.MaxOffset, len(offset))
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.offset = append([]byte{}, offset...)
	r.telling.offset = true
	r.tellSoon()
	return nil
}

// SetOutput sets the result, of which 64 KiB are kept. The last one is kept.
func (r *Run) SetOutput(output string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.output = machine.Shorten(output, machine.MaxOutput)
}

// Count adds to the counts of records that the outcome will carry. It panics if one is negative: counts only grow.
func (r *Run) Count(processed, failed int) {
	if processed < 0 || failed < 0 {
		panic(fmt.Sprintf("rosterd: counts only grow: %d, %d", processed, failed))
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.counted.processed += uint64(processed)
	r.counted.failed += uint64(failed)
}

// Progress reports progress to people, 0 to 100, with a message of which 1 KiB is kept. It is cheap: of many calls in a
// row only the last is sent.
func (r *Run) Progress(percent int, message string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.progress.Percent = uint32(max(0, min(100, percent)))
	r.progress.Message = machine.Shorten(message, machine.MaxProgress)
	r.telling.progress = true
	r.tellSoon()
}

// tellSoon is called with the mutex held. Even messages that are due at once have a separate goroutine, so that none
// waits for the driver with the mutex held.
func (r *Run) tellSoon() {
	if r.over || r.telling.timer != nil {
		return
	}
	r.telling.timer = time.AfterFunc(max(0, tellEvery-time.Since(r.telling.last)), r.tell)
}

func (r *Run) tell() {
	r.mutex.Lock()
	told := r.telling
	r.telling = telling{last: time.Now()}
	over, progress, offset := r.over, r.progress, r.offset
	r.mutex.Unlock()
	if over {
		return
	}
	// The offset first: progress takes along the latest one.
	if told.offset {
		r.outlet.post(machine.OffsetSet{Key: r.key, Offset: offset})
	}
	if told.progress {
		r.outlet.post(machine.Progressed{Key: r.key, Progress: progress})
	}
}

func (r *Run) counts() counts {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.counted
}

// left is what user code has set; later calls have no effect.
func (r *Run) left() machine.Ending {
	r.mutex.Lock()
	r.over = true
	if r.telling.timer != nil {
		r.telling.timer.Stop()
	}
	left := machine.Ending{
		Output: r.output, Processed: r.counted.processed, Failed: r.counted.failed, Offset: r.offset,
	}
	r.mutex.Unlock()
	r.cancel(nil)
	return left
}

// stopped is why the run must stop.
func (r *Run) stopped() machine.StopReason {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.stop
}

func (r *Run) attrs() []slog.Attr {
	return append(r.key.Attrs(), slog.String("instance", r.InstanceID))
}

// tokenOf: tokens have 63 bits.
func tokenOf(token uint64) int64 {
	return int64(token & math.MaxInt64)
}
