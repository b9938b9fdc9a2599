package rosterd

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
)

const (
	// maxLines may wait for the logger or a hook; more are dropped, and counted.
	maxLines = 1024
	// linesPatience is how long a worker that has left waits for a logger that accepts no lines.
	linesPatience = time.Second
)

// lines passes log lines and calls of hooks to the program, in a separate goroutine: the driver waits for neither.
type lines struct {
	log     *slog.Logger
	hooks   Hooks
	queue   chan machine.Effect
	leftOut atomic.Int64
	stop    chan struct{}
	done    chan struct{}
}

func newLines(log *slog.Logger, hooks Hooks) *lines {
	l := &lines{
		log: log, hooks: hooks,
		queue: make(chan machine.Effect, maxLines), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go l.work()
	return l
}

func (l *lines) put(line machine.Effect) {
	select {
	case l.queue <- line:
	default:
		l.leftOut.Add(1)
	}
}

// close waits until all lines are written, or for this long.
func (l *lines) close() {
	close(l.stop)
	late := time.NewTimer(linesPatience)
	defer late.Stop()
	select {
	case <-l.done:
	case <-late.C:
	}
}

func (l *lines) work() {
	defer close(l.done)
	for {
		select {
		case line := <-l.queue:
			l.write(line)
		case <-l.stop:
			for {
				select {
				case line := <-l.queue:
					l.write(line)
				default:
					return
				}
			}
		}
	}
}

func (l *lines) write(line machine.Effect) {
	if count := l.leftOut.Swap(0); count > 0 {
		l.tell(machine.Note{Level: slog.LevelWarn, Text: fmt.Sprintf("%d log lines were left out before this one", count)})
	}
	if err := protected(func() error { l.tell(line); return nil }); err != nil {
		_ = protected(func() error { l.log.Error("a hook or the logger failed", "error", describe(err)); return nil })
	}
}

func (l *lines) tell(line machine.Effect) {
	switch line := line.(type) {
	case machine.Note:
		l.log.LogAttrs(context.Background(), line.Level, line.Text, line.Attrs...)
	case machine.Attached:
		if l.hooks.Attached != nil {
			l.hooks.Attached(line.Server, line.InstanceID)
		}
	case machine.Detached:
		if l.hooks.Detached != nil {
			l.hooks.Detached(line.Server, line.Reason)
		}
	case machine.Renewed:
		if l.hooks.LeaseRenewed != nil {
			l.hooks.LeaseRenewed(line.RoundTrip)
		}
	}
}
