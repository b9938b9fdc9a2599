package machine

import (
	"log/slog"
	"math"
	"strconv"
	"time"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// Now is one instant on both clocks.
type Now struct {
	// Boot is for leases and timers: since some fixed moment, never set back, counting while the machine sleeps.
	Boot time.Duration
	// Wall is for people, and for comparison with the coordinator's times.
	Wall time.Time
}

const (
	// never is later than every time.
	never = time.Duration(math.MaxInt64)
	// ended is sooner than every time.
	ended = time.Duration(math.MinInt64)
)

// after adds, and saturates at never.
func after(at, pause time.Duration) time.Duration {
	if at == never || pause > never-max(at, 0) {
		return never
	}
	return at + pause
}

// Item names an item of a job.
type Item struct {
	Job  string
	Item uint32
}

// Key names one run; the token is its fencing token.
type Key struct {
	Item
	Token uint64
}

func (k Key) String() string {
	return k.Job + "/" + strconv.FormatUint(uint64(k.Item.Item), 10) + " token " + strconv.FormatUint(k.Token, 10)
}

// Attrs are the ids for log lines.
func (k Key) Attrs() []slog.Attr {
	return []slog.Attr{slog.String("job", k.Job), slog.Uint64("item", uint64(k.Item.Item)), slog.Uint64("token", k.Token)}
}

func (k Key) ref() *pb.RunRef {
	return &pb.RunRef{Job: k.Job, Item: k.Item.Item, Token: k.Token}
}

func keyOf(ref *pb.RunRef) Key {
	return Key{Item: Item{Job: ref.GetJob(), Item: ref.GetItem()}, Token: ref.GetToken()}
}

// StopReason is why user code must stop; it determines the report once the code has ended.
type StopReason int

// The reasons; the zero value means that a run need not stop.
const (
	NotStopped StopReason = iota
	StopOperator
	StopTimedOut
	StopLeaving
	StopLease
	StopFenced
	// StopDead: the coordinator gave this process a new identity, so no report is expected.
	StopDead
)

func (r StopReason) String() string {
	switch r {
	case StopOperator:
		return "an operator asked for it"
	case StopTimedOut:
		return "its time is over"
	case StopLeaving:
		return "the worker leaves"
	case StopLease:
		return "the lease ended"
	case StopFenced:
		return "another run of the item took its place"
	case StopDead:
		return "the worker had been marked dead"
	default:
		return "not stopped"
	}
}

func (r StopReason) outcome() pb.RunOutcome {
	switch r {
	case StopOperator:
		return pb.RunOutcome_RUN_OUTCOME_CANCELLED
	case StopTimedOut:
		return pb.RunOutcome_RUN_OUTCOME_TIMED_OUT
	case StopLeaving:
		return pb.RunOutcome_RUN_OUTCOME_HANDED_BACK
	default:
		return pb.RunOutcome_RUN_OUTCOME_ABORTED
	}
}

// outweighs: a reason that revokes the run's right overrides an earlier one; otherwise the first reason stays.
func (r StopReason) outweighs(earlier StopReason) bool {
	return (r == StopFenced || r == StopDead) && earlier != StopDead
}

func stopReasonOf(reason pb.CancelReason) StopReason {
	switch reason {
	case pb.CancelReason_CANCEL_REASON_FENCED:
		return StopFenced
	case pb.CancelReason_CANCEL_REASON_TIMED_OUT:
		return StopTimedOut
	default:
		return StopOperator
	}
}

// EndKind is how an attempt ended.
type EndKind int

// The ways in which an attempt ends.
const (
	Returned EndKind = iota
	Failed
	// Fatal: failed, and another attempt would not help.
	Fatal
	Cancelled
	// NotBegun: the last check, by the goroutine that was about to call user code, failed.
	NotBegun
)

func (k EndKind) outcome() pb.RunOutcome {
	switch k {
	case Returned:
		return pb.RunOutcome_RUN_OUTCOME_SUCCEEDED
	case Cancelled:
		return pb.RunOutcome_RUN_OUTCOME_CANCELLED
	case NotBegun:
		// A later attempt that could not begin: user code of this run has been called before.
		return pb.RunOutcome_RUN_OUTCOME_ABORTED
	default:
		return pb.RunOutcome_RUN_OUTCOME_FAILED
	}
}

// Ending is how one attempt of a run ended.
type Ending struct {
	Kind              EndKind
	Output, Error     string
	Processed, Failed uint64
	// Offset is the one that user code has set; nil: none.
	Offset []byte
}

// End is how the worker ended.
type End struct {
	How How
	// Job was refused.
	Job string
	// Code is of the table of error codes (a refused job), or the name of a gRPC status (a rejected worker).
	Code, Detail string
}

// How a worker ends.
type How int

// The ways in which a worker ends.
const (
	// Left in order.
	Left How = iota
	// Unacknowledged: no coordinator has answered the goodbye in time, so the worker counts as crashed.
	Unacknowledged
	// Refused: no job is left, and this one was refused.
	Refused
	// Rejected by every coordinator before any Welcome.
	Rejected
	// Killed: without a goodbye.
	Killed
)

// Settings is what the machine needs of the options.
type Settings struct {
	Servers      []string
	Namespace    string
	Address      string
	Labels       map[string]string
	Slots        int
	DrainTimeout time.Duration
	// LeaveTimeout bounds the goodbye once no run is left.
	LeaveTimeout   time.Duration
	ConnectTimeout time.Duration
	// LongestDelay between two attempts to connect.
	LongestDelay time.Duration
	// Client is the name and version of this library, for people.
	Client string
	// Trusted reports whether the worker may connect to a coordinator that only a Welcome named; nil: to each.
	Trusted func(address string) bool
}

// Registration is a job as it is registered.
type Registration struct {
	Job, HandlerType, Config string
	Overwrite                bool
}
