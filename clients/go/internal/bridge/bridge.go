// Package bridge lets package rosterdtest make runs, which only package rosterd can do.
package bridge

import (
	"context"
	"log/slog"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
)

// Attempt is one attempt that is carried out without a coordinator.
type Attempt struct {
	// Handler is a rosterd.Handler.
	Handler any
	Start   machine.StartRun
	Leaving bool
	Logger  *slog.Logger
}

// Done is how it ended.
type Done struct {
	Err      error
	Ending   machine.Ending
	Stop     machine.StopReason
	Progress machine.Progress
}

// Call carries out an attempt; once ctx is done its run must stop, as an operator's cancel. Package rosterd sets it.
var Call func(ctx context.Context, attempt Attempt) Done
