package machine

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// phase is how far a run in flight has come.
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

// held is one run in flight, and what is reported of it.
type held struct {
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
	// toldFrom is when the present attempt began, while that is still to be said.
	toldFrom  time.Time
	timeoutAt time.Duration
	deadline  time.Time
	// nextAt is when it begins (waiting), or begins again (between).
	nextAt time.Duration

	progress progress

	report *pb.RunCompleted
	// replaces: the report says that the one before it was refused.
	replaces bool
}

func newHeld(key Key, offer offer) *held {
	return &held{
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

func (h *held) start() StartRun {
	return StartRun{
		Key: h.key, Trigger: h.trigger, InstanceID: h.instanceID, Attempt: h.attempt, Offset: h.offset,
		Deadline: h.deadline, Props: h.props,
	}
}

func (h *held) outcome(kind EndKind) pb.RunOutcome {
	if kind == NotBegun && !h.begun {
		switch h.stop {
		case NotStopped, StopLease, StopFenced:
			return pb.RunOutcome_RUN_OUTCOME_NOT_STARTED
		}
	}
	if h.stop != NotStopped {
		return h.stop.outcome()
	}
	return kind.outcome()
}

func (h *held) completed(wall time.Time, outcome pb.RunOutcome, failure, output string) *pb.RunCompleted {
	report := &pb.RunCompleted{
		Run:       h.key.ref(),
		Outcome:   outcome,
		Error:     Shorten(failure, MaxError),
		Output:    Shorten(output, MaxOutput),
		Processed: h.processed,
		Failed:    h.failed,
		Offset:    h.newOffset,
		EndedAt:   timestamppb.New(wall),
		Attempt:   h.attempt,
	}
	if h.begun {
		report.StartedAt = timestamppb.New(h.startedAt)
	}
	return report
}

// instead is the report in place of one that was refused: nothing of that was written, and without another one the run
// would go on in the coordinator's records.
func (h *held) instead(why string) *pb.RunCompleted {
	refused := h.report
	return &pb.RunCompleted{
		Run:       h.key.ref(),
		Outcome:   pb.RunOutcome_RUN_OUTCOME_FAILED,
		Error:     Shorten(fmt.Sprintf("the report %s was refused: %s", outcomeName(refused.GetOutcome()), why), MaxError),
		StartedAt: refused.GetStartedAt(),
		EndedAt:   refused.GetEndedAt(),
		Attempt:   h.attempt,
	}
}

func outcomeName(outcome pb.RunOutcome) string {
	return strings.TrimPrefix(outcome.String(), "RUN_OUTCOME_")
}

// pause is how long the run waits once its present attempt has failed.
func (h *held) pause() time.Duration {
	pause := h.trigger.GetRetryBackoff().AsDuration()
	longest := never
	if h.trigger.GetRetryBackoffMax() != nil {
		longest = h.trigger.GetRetryBackoffMax().AsDuration()
	}
	factor := time.Duration(max(1, h.trigger.GetRetryBackoffMultiplier()))
	for range h.attempt - 1 {
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
