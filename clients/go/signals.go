package rosterd

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// oneRequest: supervisors signal a process and its group, so signals this soon after the first one repeat it.
const oneRequest = time.Second

// signals make the worker leave in order; a second one ends the process immediately.
type signals struct {
	leave func()
	log   *slog.Logger
	exit  func(code int)
	come  chan os.Signal
	stop  chan struct{}
	done  chan struct{}
}

func listen(leave func(), log *slog.Logger) *signals {
	s := &signals{
		leave: leave, log: log, exit: os.Exit,
		come: make(chan os.Signal, 4), stop: make(chan struct{}), done: make(chan struct{}),
	}
	signal.Notify(s.come, syscall.SIGTERM, os.Interrupt)
	go s.wait()
	return s
}

// close gives the signals back to the program.
func (s *signals) close() {
	signal.Stop(s.come)
	close(s.stop)
	<-s.done
}

func (s *signals) wait() {
	defer close(s.done)
	var first time.Time
	for {
		select {
		case <-s.stop:
			return
		case come := <-s.come:
			switch {
			case first.IsZero():
				first = time.Now()
				s.leave()
			case time.Since(first) >= oneRequest:
				s.log.Warn("second signal received: exiting immediately; runs in flight are recorded as crashed")
				s.exit(128 + int(come.(syscall.Signal)))
			}
		}
	}
}
