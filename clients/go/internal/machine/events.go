package machine

import (
	"log/slog"
	"time"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// Event is an input of the machine.
type Event interface{ event() }

type (
	// Start is the first event.
	Start struct{}
	// Tick: a timer is due.
	Tick struct{}
	// Opened: the connection is open, and frames can be sent.
	Opened struct{ Stream uint64 }
	// Lost: the stream ended or never came to be; Code is the name of a gRPC status, or empty.
	Lost struct {
		Stream       uint64
		Code, Detail string
	}
	// Received is a frame from the coordinator.
	Received struct {
		Stream uint64
		Frame  *pb.SessionResponse
	}
	// Began: user code is about to be called.
	Began struct{ Key Key }
	// Ended: user code has ended.
	Ended struct {
		Key    Key
		Ending Ending
	}
	// Expired: user code has found by its own check that its lease had expired, and acts on that.
	Expired struct{ Key Key }
	// Progressed is the progress that a run reports.
	Progressed struct {
		Key      Key
		Progress Progress
	}
	// OffsetSet is the item's offset that a run sets.
	OffsetSet struct {
		Key    Key
		Offset []byte
	}
	// CallbackEnded answers StartCallback; an empty error: it succeeded.
	CallbackEnded struct{ ID, Error string }
	// Leave asks the worker to leave in order.
	Leave struct {
		// Grace is how long runs have; negative: the drain timeout.
		Grace time.Duration
		// Signalled: the log tells the sender of the signal what the worker waits for, and how to end it immediately.
		Signalled bool
	}
	// Quit is to leave now, without a goodbye.
	Quit struct{}
)

func (Start) event()         {}
func (Tick) event()          {}
func (Opened) event()        {}
func (Lost) event()          {}
func (Received) event()      {}
func (Began) event()         {}
func (Ended) event()         {}
func (Expired) event()       {}
func (Progressed) event()    {}
func (OffsetSet) event()     {}
func (CallbackEnded) event() {}
func (Leave) event()         {}
func (Quit) event()          {}

// Progress is what a run reports for people.
type Progress struct {
	Percent uint32
	Message string
}

// Effect is an output of the machine.
type Effect interface{ effect() }

type (
	// Open connects, once every earlier stream is closed; answered by Opened or Lost.
	Open struct {
		Stream  uint64
		Address string
	}
	// Close ends a stream.
	Close struct{ Stream uint64 }
	// Send writes a frame.
	Send struct {
		Stream uint64
		Frame  *pb.SessionRequest
	}
	// StartRun calls user code; answered by Began (unless the last check failed) and Ended.
	StartRun struct {
		Key        Key
		Trigger    *pb.Trigger
		InstanceID string
		Attempt    uint32
		Offset     []byte
		// Deadline is zero if it counts from when user code starts, or there is none.
		Deadline time.Time
		// Props are the job's, as they were when the trigger came.
		Props map[string]string
	}
	// StopRun tells user code to stop.
	StopRun struct {
		Key    Key
		Reason StopReason
	}
	// StartCallback calls the callback of a fire.
	StartCallback struct{ Callback *pb.Callback }
	// Attached and Detached: the worker has a stream, or no longer has one.
	Attached struct{ Server, InstanceID string }
	Detached struct{ Server, Reason string }
	// Renewed: an acknowledgement has renewed the lease, this long after its heartbeat was sent.
	Renewed struct{ RoundTrip time.Duration }
	// Departing: the worker is leaving, and runs that can stop early may.
	Departing struct{}
	// Note is a line for the log.
	Note struct {
		Level slog.Level
		Text  string
		Attrs []slog.Attr
	}
	// Finish is the machine's last effect.
	Finish struct{ End End }
)

func (Open) effect()          {}
func (Close) effect()         {}
func (Send) effect()          {}
func (StartRun) effect()      {}
func (StopRun) effect()       {}
func (StartCallback) effect() {}
func (Attached) effect()      {}
func (Detached) effect()      {}
func (Renewed) effect()       {}
func (Departing) effect()     {}
func (Note) effect()          {}
func (Finish) effect()        {}

// output collects the effects of the parts of the machine.
type output struct{ effects []Effect }

func (o *output) emit(effect Effect) {
	o.effects = append(o.effects, effect)
}

func (o *output) note(level slog.Level, text string, attrs ...slog.Attr) {
	o.emit(Note{Level: level, Text: text, Attrs: attrs})
}

// take returns the collected effects.
func (o *output) take() []Effect {
	effects := o.effects
	o.effects = nil
	return effects
}
