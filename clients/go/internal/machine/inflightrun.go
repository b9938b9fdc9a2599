package machine

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// phase is that of a run in flight.
type phase int

const (
	// waiting: its time has not come.
	waiting phase = iota
	inUserCode
	// between: a failed attempt waits for the next one.
	between
	// reported: only the report is left.
	reported
)

// inFlightRun is one run in flight, and what is reported about it.
type inFlightRun struct {
	key        Key
	trigger    *pb.Trigger
	instanceID string
	props      map[string]string
	attempt    uint32
	offset     []byte
	phase      phase
	stop       StopReason

	newOffset         []byte
	processed, failed uint64

	begun     bool
	startedAt time.Time
	// toldFrom is when the current attempt began, until that is reported.
	toldFrom  time.Time
	timeoutAt time.Duration
	deadline  time.Time
	// nextAt is when it begins (waiting), or begins again (between).
	nextAt time.Duration

	progress progress

	report *pb.RunCompleted
	// replaces: the report replaces one that was refused.
	replaces bool
}

func newInFlightRun(key Key, offer offer) *inFlightRun {
	return &inFlightRun{
		key:        key,
		trigger:    offer.trigger,
		instanceID: offer.instanceID,
		props:      offer.props,
		attempt:    max(1, offer.trigger.GetAttempt()),
		offset:     offer.trigger.GetOffset(),
		phase:      inUserCode,
		timeoutAt:  never,
		progress:   progress{next: ended},
	}
}

func (r *inFlightRun) start() StartRun {
	return StartRun{
		Key: r.key, Trigger: r.trigger, InstanceID: r.instanceID, Attempt: r.attempt, Offset: r.offset,
		Deadline: r.deadline, Props: r.props,
	}
}

func (r *inFlightRun) outcome(kind EndKind) pb.RunOutcome {
	if kind == NotBegun && !r.begun {
		switch r.stop {
		case NotStopped, StopLease, StopFenced:
			return pb.RunOutcome_RUN_OUTCOME_NOT_STARTED
		}
	}
	if r.stop != NotStopped {
		return r.stop.outcome()
	}
	return kind.outcome()
}

func (r *inFlightRun) completed(wall time.Time, outcome pb.RunOutcome, failure, output string) *pb.RunCompleted {
	report := &pb.RunCompleted{
		Run:       r.key.ref(),
		Outcome:   outcome,
		Error:     Shorten(failure, MaxError),
		Output:    Shorten(output, MaxOutput),
		Processed: r.processed,
		Failed:    r.failed,
		Offset:    r.newOffset,
		EndedAt:   timestamppb.New(wall),
		Attempt:   r.attempt,
	}
	if r.begun {
		report.StartedAt = timestamppb.New(r.startedAt)
	}
	return report
}

// instead is the report in place of a refused one, of which nothing was written: without another one the run would stay
// in the coordinator's records.
func (r *inFlightRun) instead(why string) *pb.RunCompleted {
	refused := r.report
	return &pb.RunCompleted{
		Run:       r.key.ref(),
		Outcome:   pb.RunOutcome_RUN_OUTCOME_FAILED,
		Error:     Shorten(fmt.Sprintf("the report %s was refused: %s", outcomeName(refused.GetOutcome()), why), MaxError),
		StartedAt: refused.GetStartedAt(),
		EndedAt:   refused.GetEndedAt(),
		Attempt:   r.attempt,
	}
}

func outcomeName(outcome pb.RunOutcome) string {
	return strings.TrimPrefix(outcome.String(), "RUN_OUTCOME_")
}

// pause is how long the run waits once its current attempt has failed.
func (r *inFlightRun) pause() time.Duration {
	pause := r.trigger.GetRetryBackoff().AsDuration()
	longest := never
	if r.trigger.GetRetryBackoffMax() != nil {
		longest = r.trigger.GetRetryBackoffMax().AsDuration()
	}
	factor := time.Duration(max(1, r.trigger.GetRetryBackoffMultiplier()))
	for range r.attempt - 1 {
		if pause >= longest || pause > never/factor {
			return longest
		}
		if factor == 1 {
			break
		}
		pause *= factor
	}
	return min(pause, longest)
}
