package machine

import (
	"log/slog"
	"time"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// Event is what goes into the machine.
type Event interface{ event() }

type (
	// Start is the first event.
	Start struct{}
	// Tick says that a timer is due.
	Tick struct{}
	// Opened: the connection stands and frames can be sent.
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
	// Ended: user code has really ended.
	Ended struct {
		Key    Key
		Ending Ending
	}
	// Expired: user code has found by its own look that its lease had ended, and goes by that.
	Expired struct{ Key Key }
	// Progressed is how far a run says it is.
	Progressed struct {
		Key      Key
		Progress Progress
	}
	// OffsetSet is how far its item has come.
	OffsetSet struct {
		Key    Key
		Offset []byte
	}
	// CallbackEnded answers StartCallback; an empty error: it went well.
	CallbackEnded struct{ ID, Error string }
	// Leave in good order.
	Leave struct {
		// Grace is how long runs have; negative: as long as the settings say.
		Grace time.Duration
		// Signalled: whoever sent the signal reads what is waited for, and how to end it at once.
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

// Progress is what a run says of itself for people.
type Progress struct {
	Percent uint32
	Message string
}

// Effect is what comes out of the machine.
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
	// StartRun calls user code; answered by Began (unless the last look failed) and Ended.
	StartRun struct {
		Key        Key
		Trigger    *pb.Trigger
		InstanceID string
		Attempt    uint32
		Offset     []byte
		// Deadline is zero where it counts from when user code begins, or there is none.
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
	// Attached and Detached: the worker has a stream, or no longer has.
	Attached struct{ Server, InstanceID string }
	Detached struct{ Server, Reason string }
	// Renewed: an acknowledgement has renewed the lease, so long after its heartbeat was sent.
	Renewed struct{ RoundTrip time.Duration }
	// Departing: no new work is wanted, and what could stop early, may.
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

// output is where the parts of the machine leave their effects.
type output struct{ effects []Effect }

func (o *output) emit(effect Effect) {
	o.effects = append(o.effects, effect)
}

func (o *output) note(level slog.Level, text string, attrs ...slog.Attr) {
	o.emit(Note{Level: level, Text: text, Attrs: attrs})
}

// take hands out what has come together.
func (o *output) take() []Effect {
	effects := o.effects
	o.effects = nil
	return effects
}
