package rosterd

import (
	"context"

	"github.com/rosterd/rosterd/clients/go/internal/bridge"
	"github.com/rosterd/rosterd/clients/go/internal/machine"
)

func init() {
	bridge.Call = callOnce
}

// callOnce carries out one attempt for a test of a handler.
func callOnce(ctx context.Context, attempt bridge.Attempt) bridge.Done {
	run := newRun(attempt.Start, unattached{attempt.Leaving}, attempt.Logger)
	run.begin(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { run.stopFor(machine.StopOperator) })()
	if ctx.Err() != nil {
		run.stopFor(machine.StopOperator)
	}
	err := protected(func() error { return attempt.Handler.(Handler)(run.ctx, run) })
	done := bridge.Done{Err: err, Stop: run.stopped()}
	done.Ending = endingOf(run, err)
	run.mutex.Lock()
	defer run.mutex.Unlock()
	done.Progress = run.progress
	return done
}

// unattached is the outlet of a run without a worker: its lease never ends.
type unattached struct{ departing bool }

func (unattached) leaseOver(<-chan struct{}) bool { return false }
func (u unattached) leaving() bool                { return u.departing }
func (unattached) post(machine.Event)             {}
