package machine

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// offer is a Trigger, and what the machine knows about it.
type offer struct {
	trigger    *pb.Trigger
	instanceID string
	props      map[string]string
	// startsIn is how long it is kept before it begins.
	startsIn time.Duration
	// objection is why the machine does not start it, or empty.
	objection string
}

// inFlight is every run that is in user code, or between attempts, or whose outcome is not acknowledged.
//
// It owns the life of a run: the checks before it starts, stopping, retries, its report until that is acknowledged. It
// knows only the numbers of streams.
type inFlight struct {
	*output
	slots int
	// In the order of their Triggers, then of their ends. The following are subsets of it: bursts of thousands of runs are
	// common, so no event iterates over all of them.
	runs   *ordered[Key, *inFlightRun]
	active *ordered[Key, *inFlightRun]
	ofItem map[Item][]*inFlightRun
	// unstopped counts the active runs that need not stop.
	unstopped int
	// soonest is a lower bound of the next time at which a timer of a run is due.
	soonest     time.Duration
	toTell      *ordered[Key, *inFlightRun]
	progressing *ordered[Key, *inFlightRun]
	// Reports that were not sent on the current stream, and how many were.
	unsent   *ordered[Key, *inFlightRun]
	underWay int
	stream   uint64
	highest  map[Item]uint64
}

func newInFlight(slots int, out *output) *inFlight {
	return &inFlight{
		output:      out,
		slots:       slots,
		runs:        newOrdered[Key, *inFlightRun](),
		active:      newOrdered[Key, *inFlightRun](),
		ofItem:      make(map[Item][]*inFlightRun),
		soonest:     never,
		toTell:      newOrdered[Key, *inFlightRun](),
		progressing: newOrdered[Key, *inFlightRun](),
		unsent:      newOrdered[Key, *inFlightRun](),
		highest:     make(map[Item]uint64),
	}
}

func (f *inFlight) refs() []*pb.RunRef {
	refs := make([]*pb.RunRef, 0, f.runs.len())
	for key := range f.runs.all() {
		refs = append(refs, key.ref())
	}
	return refs
}

// working are the runs that have not ended yet.
func (f *inFlight) working() []Key {
	keys := make([]Key, 0, f.active.len())
	for key := range f.active.all() {
		keys = append(keys, key)
	}
	return keys
}

func (f *inFlight) empty() bool {
	return f.runs.len() == 0
}

func (f *inFlight) hasUnstopped() bool {
	return f.unstopped > 0
}

func (f *inFlight) add(run *inFlightRun) {
	f.runs.put(run.key, run)
	f.active.put(run.key, run)
	f.ofItem[run.key.Item] = append(f.ofItem[run.key.Item], run)
	f.unstopped++
}

// settle marks a run as over here, except for its report.
func (f *inFlight) settle(run *inFlightRun) {
	f.runs.delete(run.key)
	if !f.active.delete(run.key) {
		return
	}
	var others []*inFlightRun
	for _, other := range f.ofItem[run.key.Item] {
		if other != run {
			others = append(others, other)
		}
	}
	if others == nil {
		delete(f.ofItem, run.key.Item)
	} else {
		f.ofItem[run.key.Item] = others
	}
	if run.stop == NotStopped {
		f.unstopped--
	}
	f.toTell.delete(run.key)
	f.progressing.delete(run.key)
}

// ---- a run begins

func (f *inFlight) take(now Now, offer offer) {
	key := keyOf(offer.trigger.GetRun())
	if f.runs.has(key) {
		return
	}
	run := newInFlightRun(key, offer)
	objection := offer.objection
	if seen, known := f.highest[key.Item]; known && key.Token <= seen {
		// The run is over here, or older than the item's highest token. The coordinator must know.
		objection = fmt.Sprintf("a run %d of the item was seen already", seen)
	} else {
		f.highest[key.Item] = key.Token
		// A higher token means that reports of older runs of the item are no longer accepted.
		for _, older := range f.ofItem[key.Item] {
			f.stop(now, older, StopFenced)
		}
		if objection == "" {
			objection = f.objection(key)
		}
	}
	f.add(run)
	switch {
	case objection != "":
		f.note(slog.LevelWarn, fmt.Sprintf("did not start %v: %s", key, objection), key.Attrs()...)
		f.report(now, run, pb.RunOutcome_RUN_OUTCOME_NOT_STARTED, objection, "")
	case offer.startsIn > 0:
		run.phase = waiting
		f.later(run, after(now.Boot, offer.startsIn))
	default:
		f.start(run)
	}
}

func (f *inFlight) objection(key Key) string {
	switch {
	case len(f.ofItem[key.Item]) > 0:
		return "an older run of the item is still in user code"
	case f.active.len() >= f.slots:
		return "no slot is free"
	default:
		return ""
	}
}

// dropUnstarted forgets the runs that have not begun: their stream is lost. The next one sends them again, under the same tokens.
func (f *inFlight) dropUnstarted() {
	for key, run := range f.active.all() {
		if run.phase != waiting {
			continue
		}
		f.settle(run)
		if f.highest[key.Item] == key.Token {
			f.highest[key.Item] = key.Token - 1
		}
	}
}

func (f *inFlight) later(run *inFlightRun, at time.Duration) {
	run.nextAt = at
	f.soonest = min(f.soonest, at)
}

func (f *inFlight) start(run *inFlightRun) {
	run.phase = inUserCode
	f.emit(run.start())
}

func (f *inFlight) began(now Now, key Key) {
	run, known := f.active.get(key)
	if !known {
		return
	}
	run.toldFrom = now.Wall
	f.toTell.put(key, run)
	if run.begun {
		return
	}
	run.begun, run.startedAt = true, now.Wall
	if timeout := run.trigger.GetTimeout().AsDuration(); timeout > 0 {
		run.timeoutAt = after(now.Boot, timeout)
		f.soonest = min(f.soonest, run.timeoutAt)
		run.deadline = now.Wall.Add(timeout)
	}
}

// dueStarted is the RunStarted frames to send. For a run that has ended meanwhile, its report implies the start.
func (f *inFlight) dueStarted() []*pb.RunStarted {
	if f.toTell.len() == 0 {
		return nil
	}
	var due []*pb.RunStarted
	for key, run := range f.toTell.all() {
		f.toTell.delete(key)
		if run.phase == inUserCode {
			due = append(due, &pb.RunStarted{Run: key.ref(), StartedAt: timestamppb.New(run.toldFrom), Attempt: run.attempt})
		}
	}
	return due
}

// ---- a run is stopped

func (f *inFlight) cancel(now Now, key Key, reason StopReason) {
	if run, known := f.active.get(key); known {
		f.stop(now, run, reason)
	}
}

func (f *inFlight) stopAll(now Now, reason StopReason) {
	for _, run := range f.active.all() {
		f.stop(now, run, reason)
	}
}

// disown: the coordinator marked the old identity dead. Old reports are dropped; old runs stop and are not reported.
func (f *inFlight) disown(now Now) {
	for _, run := range f.runs.all() {
		if run.phase == inUserCode {
			f.stop(now, run, StopDead)
		} else {
			f.settle(run)
		}
	}
	f.unsent = newOrdered[Key, *inFlightRun]()
	f.underWay = 0
}

func (f *inFlight) stop(now Now, run *inFlightRun, reason StopReason) {
	told := run.stop != NotStopped
	if !told {
		f.unstopped--
	}
	if !told || reason.outweighs(run.stop) {
		run.stop = reason
	}
	switch {
	case run.phase == between:
		f.end(now, run, Ending{Kind: Cancelled, Error: stopped(reason)})
	case run.phase == waiting:
		f.end(now, run, Ending{Kind: NotBegun, Error: stopped(reason)})
	case !told:
		f.note(slog.LevelWarn, fmt.Sprintf("stopping %v: %v", run.key, reason), run.key.Attrs()...)
		f.emit(StopRun{Key: run.key, Reason: reason})
	}
}

func stopped(reason StopReason) string {
	return "cancelled: " + reason.String()
}

// ---- a run ends

func (f *inFlight) ended(now Now, key Key, ending Ending) {
	run, known := f.active.get(key)
	if !known || run.phase != inUserCode {
		return
	}
	run.processed += ending.Processed
	run.failed += ending.Failed
	if ending.Offset != nil {
		run.offset, run.newOffset = ending.Offset, ending.Offset
	}
	if ending.Kind != Failed || run.stop != NotStopped || run.attempt >= run.trigger.GetMaxAttempts() {
		f.end(now, run, ending)
		return
	}
	run.phase = between
	f.later(run, after(now.Boot, run.pause()))
	summary, _, _ := strings.Cut(ending.Error, "\n")
	f.note(slog.LevelWarn, fmt.Sprintf("attempt %d of %v failed: %s", run.attempt, key, summary), key.Attrs()...)
}

func (f *inFlight) end(now Now, run *inFlightRun, ending Ending) {
	if run.stop == StopDead {
		f.settle(run)
		return
	}
	outcome := run.outcome(ending.Kind)
	if outcome == pb.RunOutcome_RUN_OUTCOME_FAILED {
		f.note(slog.LevelError, fmt.Sprintf("%v failed: %s", run.key, ending.Error), run.key.Attrs()...)
	}
	why := ending.Error
	if why == "" && run.stop != NotStopped {
		why = stopped(run.stop)
	}
	f.report(now, run, outcome, why, ending.Output)
}

func (f *inFlight) report(now Now, run *inFlightRun, outcome pb.RunOutcome, failure, output string) {
	run.report = run.completed(now.Wall, outcome, failure, output)
	run.phase = reported
	// Reports go out in the order in which runs ended.
	f.settle(run)
	f.runs.put(run.key, run)
	f.unsent.put(run.key, run)
}

// ---- time

// deadline is the next time at which a timer of a run is due.
func (f *inFlight) deadline(live bool) time.Duration {
	next := f.soonest
	if live {
		for _, run := range f.progressing.all() {
			next = min(next, run.progress.due())
		}
	}
	return next
}

func (f *inFlight) expire(now Now, mayStart bool) {
	if now.Boot < f.soonest {
		return
	}
	for _, run := range f.active.all() {
		if run.stop == NotStopped && now.Boot >= run.timeoutAt {
			f.stop(now, run, StopTimedOut)
		} else if (run.phase == waiting || run.phase == between) && now.Boot >= run.nextAt && mayStart {
			if run.phase == between {
				run.attempt++
			}
			f.start(run)
		}
	}
	f.soonest = never
	for _, run := range f.active.all() {
		if run.phase == waiting || run.phase == between {
			f.later(run, run.nextAt)
		}
		if run.stop == NotStopped {
			f.soonest = min(f.soonest, run.timeoutAt)
		}
	}
}
